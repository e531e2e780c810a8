package cli

import (
	"io"
	"net/http"
	"time"
)

// Env is the world that commands live in. The zero value of each field but
// the streams means what it says; cmd fills in the real ones.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// LookupEnv finds variables, like os.LookupEnv; nil: there are none.
	LookupEnv func(string) (string, bool)
	// UserConfigDir finds the directory of the context file, like
	// os.UserConfigDir; nil: there is none.
	UserConfigDir func() (string, error)
	// IsTerminal reports whether Stdout is a terminal; nil: it is not.
	IsTerminal func() bool
	// TerminalSize returns the columns and rows of it; nil: 80 x 24.
	TerminalSize func() (columns, rows int)
	// Now is the clock that times are told by; nil: time.Now.
	Now func() time.Time
	// Location is where times are told; nil: time.Local.
	Location *time.Location
	// Transport makes connections; nil: http.DefaultTransport.
	Transport http.RoundTripper
	// Patience is how long a gateway that is away is waited for while
	// something is followed; 0: 2 minutes.
	Patience time.Duration
}

func (e Env) withDefaults() Env {
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
	return e
}

// variable returns a variable of the environment, "" where it is not set.
func (e Env) variable(name string) string {
	value, _ := e.LookupEnv(name)
	return value
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
