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

// style is the symbol and the colour of a status. Either is sufficient to
// recognize it.
type style struct {
	symbol string
	ascii  string
	colour colour
}

func styleOf(s run.Status) style {
	switch s {
	case run.StatusRunning:
		return style{"●", ">", blue}
	case run.StatusSuccess:
		return style{"✓", "+", green}
	case run.StatusFailed:
		return style{"✗", "x", red}
	case run.StatusWaitingApproval:
		return style{"?", "?", yellow}
	case run.StatusQueued, run.StatusWaitingChangeGroup:
		return style{"○", "o", yellow}
	case run.StatusStopped:
		return style{"■", "#", yellow}
	case run.StatusSkipped:
		return style{"-", "-", faint}
	case run.StatusCancelled:
		return style{"-", "-", faint}
	case run.StatusNotStarted:
		return style{"·", ".", faint}
	}
	return style{" ", " ", normal}
}

// style returns the style of a task: a failure that is allowed is a warning.
func (t *task) style() style {
	if t.warning() {
		return style{"!", "!", yellow}
	}
	return styleOf(t.status)
}

func (l *live) symbol(k style) string {
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
