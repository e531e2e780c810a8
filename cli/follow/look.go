package follow

import "github.com/drover-run/drover/run"

// colour is the control sequence of a colour.
type colour string

const (
	normal colour = ""
	bold   colour = "1"
	faint  colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	blue   colour = "36"
)

// look is the symbol and the colour of a status. Either is sufficient to
// recognize it.
type look struct {
	symbol string
	ascii  string
	colour colour
}

func lookOf(s run.Status) look {
	switch s {
	case run.StatusRunning:
		return look{"●", ">", blue}
	case run.StatusSuccess:
		return look{"✓", "+", green}
	case run.StatusFailed:
		return look{"✗", "x", red}
	case run.StatusWaitingApproval:
		return look{"?", "?", yellow}
	case run.StatusQueued:
		return look{"○", "o", yellow}
	case run.StatusStopped:
		return look{"■", "#", yellow}
	case run.StatusSkipped:
		return look{"-", "-", faint}
	case run.StatusCancelled:
		return look{"-", "-", faint}
	case run.StatusNotStarted:
		return look{"·", ".", faint}
	}
	return look{" ", " ", normal}
}

func (l *live) symbol(k look) string {
	if l.screen.Unicode {
		return k.symbol
	}
	return k.ascii
}

func (l *live) mark() string {
	if l.screen.Unicode {
		return "…"
	}
	return "~"
}

func (l *live) rule() string {
	if l.screen.Unicode {
		return "─"
	}
	return "-"
}

func (l *live) paint(c colour, s string) string {
	if !l.screen.Colour || c == normal || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}
