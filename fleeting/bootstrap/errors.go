package bootstrap

import (
	"fmt"
	"strings"
)

// Step is a part of making an instance an executor.
type Step string

// The steps, in their order. StepStop undoes them.
const (
	StepConnect   Step = "connect"
	StepProbe     Step = "probe"
	StepUpload    Step = "upload"
	StepConfigure Step = "configure"
	StepReady     Step = "ready"
	StepStart     Step = "start"
	StepRegister  Step = "register"
	StepStop      Step = "stop"
)

// Reason says what kind of failure a step had.
type Reason string

// The reasons.
const (
	// ReasonUnreachable: nobody answered as an SSH server until the timeout.
	ReasonUnreachable Reason = "unreachable"
	// ReasonLost: the connection ended in the middle.
	ReasonLost Reason = "lost"
	// ReasonExpired: what the plugin said is not good any more; ask it again.
	ReasonExpired Reason = "expired"
	// ReasonHostKey: the host is not who it was, or is not known.
	ReasonHostKey Reason = "host_key"
	// ReasonAuth: the host takes none of the credentials.
	ReasonAuth Reason = "auth"
	// ReasonCommand: a command on the host failed.
	ReasonCommand Reason = "command"
	// ReasonTimeout: a command, or the executor, took too long.
	ReasonTimeout Reason = "timeout"
	// ReasonUnsupported: there is no worker for this kind of host, or no way to
	// connect to it.
	ReasonUnsupported Reason = "unsupported"
	// ReasonLocal: what the step needs from this side is not to be had.
	ReasonLocal Reason = "local"
)

// retryable reports whether the same step on the same host may succeed later.
func (r Reason) retryable() bool {
	switch r {
	case ReasonUnreachable, ReasonLost, ReasonExpired, ReasonTimeout, ReasonLocal:
		return true
	case ReasonHostKey, ReasonAuth, ReasonCommand, ReasonUnsupported:
	}
	return false
}

// Error is the failure of a step.
type Error struct {
	Step     Step
	Instance string
	Host     string // address and port; "" before it is known
	Reason   Reason
	ExitCode int    // of the command, where Reason is command
	Output   string // the end of what the command, or the executor, said
	Err      error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "bootstrapping %s", e.Instance)
	if e.Host != "" {
		fmt.Fprintf(&b, " at %s", e.Host)
	}
	fmt.Fprintf(&b, ": %s: ", e.Step)
	if e.Reason == ReasonCommand {
		fmt.Fprintf(&b, "exit code %d", e.ExitCode)
	}
	if e.Err != nil {
		if e.Reason == ReasonCommand {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	if e.Output != "" {
		fmt.Fprintf(&b, "; the last lines were:\n%s", e.Output)
	}
	return b.String()
}

// Unwrap returns what the step failed by.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether to try the instance again may help.
func (e *Error) Retryable() bool { return e.Reason.retryable() }

const (
	tailLines = 20
	tailBytes = 4 << 10
)

// tailOf returns the last lines of what a command said.
func tailOf(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "?")
	lines := strings.Split(text, "\n")
	text = strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
	return strings.ToValidUTF8(text[max(0, len(text)-tailBytes):], "")
}
