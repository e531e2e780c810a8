// Package session is what the client commands of one user share: their
// environment, the context file, and the connection to the gateway.
package session

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/run"
)

// Env is the environment of the commands. The zero value of each field except the
// streams has the meaning that its comment gives; cmd sets the real values.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// LookupEnv looks up environment variables, like os.LookupEnv; nil: there are
	// none.
	LookupEnv func(string) (string, bool)
	// UserConfigDir returns the directory of the context file, like
	// os.UserConfigDir; nil: there is none.
	UserConfigDir func() (string, error)
	// IsTerminal reports whether Stdout is a terminal; nil: it is not.
	IsTerminal func() bool
	// TerminalSize returns the columns and rows of the terminal; nil: 80 x 24.
	TerminalSize func() (columns, rows int)
	// MakeRaw switches the terminal that is Stdin to the raw mode; nil: Stdin is none.
	MakeRaw func() (restore func(), err error)
	// Resizes returns a channel that receives a value when the size of the terminal
	// changes; nil: it does not.
	Resizes func() (resized <-chan os.Signal, stop func())
	// Now is the clock for relative times; nil: time.Now.
	Now func() time.Time
	// Location is the time zone of printed times; nil: time.Local.
	Location *time.Location
	// Transport makes connections; nil: http.DefaultTransport.
	Transport http.RoundTripper
	// RetryTimeout is how long a command that follows something retries while the
	// gateway is unavailable; 0: 2 minutes.
	RetryTimeout time.Duration

	input *input // shared by the copies of an Env
}

// input says what the standard input was read for.
type input struct {
	mu      sync.Mutex
	purpose string
}

// WithDefaults returns the environment with the defaults of what is not set.
func (e Env) WithDefaults() Env {
	if e.Stdin == nil {
		e.Stdin = eof{}
	}
	if e.Stdout == nil {
		e.Stdout = io.Discard
	}
	if e.Stderr == nil {
		e.Stderr = io.Discard
	}
	if e.LookupEnv == nil {
		e.LookupEnv = func(string) (string, bool) { return "", false }
	}
	if e.IsTerminal == nil {
		e.IsTerminal = func() bool { return false }
	}
	if e.TerminalSize == nil {
		e.TerminalSize = func() (int, int) { return 80, 24 }
	}
	if e.Now == nil {
		e.Now = time.Now
	}
	if e.Location == nil {
		e.Location = time.Local
	}
	if e.input == nil {
		e.input = new(input)
	}
	return e
}

// TakeStdin returns the standard input for a purpose, such as "the token". It fails if
// the command has read it for another: the second would find nothing in it.
func (e Env) TakeStdin(purpose string) (io.Reader, error) {
	e = e.WithDefaults()
	e.input.mu.Lock()
	defer e.input.mu.Unlock()
	if e.input.purpose != "" {
		return nil, run.Errorf(run.CodeInvalid, "the standard input is already read for %s, and cannot have %s too: use a file", e.input.purpose, purpose)
	}
	e.input.purpose = purpose
	return e.Stdin, nil
}

// Variable returns a variable of the environment, "" where it is not set.
func (e Env) Variable(name string) string {
	value, _ := e.LookupEnv(name)
	return value
}

// Clock formats a time of day; "" for the zero time.
func (e Env) Clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(e.Location).Format(time.DateTime)
}

// ClockIn formats a time in a zone, with its abbreviation or its offset. An unknown zone
// is that of Clock.
func (e Env) ClockIn(t time.Time, zone string) string {
	if t.IsZero() {
		return ""
	}
	location, err := time.LoadLocation(zone) // "" is UTC
	if err != nil {
		location = e.Location
	}
	return t.In(location).Format(time.DateTime + " MST")
}

// Ago formats the age of a time.
func (e Env) Ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return render.Duration(max(0, e.Now().Sub(t))) + " ago"
}

// ParseTime parses a time, or an age.
func (e Env) ParseTime(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return e.Now().Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is neither a time such as 2026-01-31T15:04:05Z nor an age such as 36h", text)
	}
	return at, nil
}

// Took formats a duration, up to now if to is zero.
func (e Env) Took(from, to time.Time) string {
	if from.IsZero() {
		return ""
	}
	if to.IsZero() {
		to = e.Now()
	}
	return render.Duration(max(0, to.Sub(from)))
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
