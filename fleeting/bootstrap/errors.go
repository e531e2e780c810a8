package bootstrap

import (
	"fmt"
	"strings"

	"github.com/drover-run/drover/internal/truncate"
)

// Step is a step of a bootstrap.
type Step string

// The steps, in their order. StepStop reverts them.
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

// Reason classifies the failure of a step.
type Reason string

// The reasons.
const (
	// ReasonUnreachable: no SSH server answered within the timeout.
	ReasonUnreachable Reason = "unreachable"
	// ReasonLost: the connection broke.
	ReasonLost Reason = "lost"
	// ReasonExpired: the connect info has expired; call the plugin again.
	ReasonExpired Reason = "expired"
	// ReasonHostKey: the host key has changed, or is not known.
	ReasonHostKey Reason = "host_key"
	// ReasonAuth: the host rejects all credentials.
	ReasonAuth Reason = "auth"
	// ReasonCommand: a command on the host failed.
	ReasonCommand Reason = "command"
	// ReasonTimeout: a command, or the registration, took too long.
	ReasonTimeout Reason = "timeout"
	// ReasonUnsupported: there is no worker for this kind of host, or no
	// supported way to connect to it.
	ReasonUnsupported Reason = "unsupported"
	// ReasonLocal: a local input of the step is not available.
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
	ExitCode int    // of the command, if Reason is command
	Output   string // the end of the output of the command or the executor
	Err      error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "bootstrap %s", e.Instance)
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

// Unwrap returns the cause of the failure.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether another attempt on the instance may succeed.
func (e *Error) Retryable() bool { return e.Reason.retryable() }

const (
	tailLines = 20
	tailBytes = 4 << 10
)

// tailOf returns the last lines of a command's output.
func tailOf(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "?")
	lines := strings.Split(text, "\n")
	return truncate.Tail(strings.Join(lines[max(0, len(lines)-tailLines):], "\n"), tailBytes)
}
