package follow

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Screen is the output of a follower. All fields but Size are required; Size is
// required for Live.
type Screen struct {
	Writer io.Writer
	// Live redraws a frame in place; otherwise lines are printed, as to a pipe.
	Live bool
	// Terminal reports that Writer is a terminal, where control sequences in the
	// output of tasks must be removed.
	Terminal bool
	Colour   bool
	Unicode  bool
	// Size returns the columns and rows of the terminal.
	Size func() (columns, rows int)
	// Now is the clock.
	Now func() time.Time
	// Location is the time zone of printed times.
	Location *time.Location
	// FormatDuration formats a duration.
	FormatDuration func(time.Duration) string
}

func (s Screen) clock(t time.Time) string { return t.In(s.Location).Format(time.TimeOnly) }

func (s Screen) formatDuration(d time.Duration) string { return s.FormatDuration(max(0, d)) }

// print writes text. It ignores errors because it cannot report them: a closed
// pipe ends the process, and a full disk shows in the output.
func (s Screen) print(text string) { _, _ = io.WriteString(s.Writer, text) }

// logText makes a line of a task's output safe to print.
func (s Screen) logText(text string) string {
	if s.Terminal {
		return Visible(text)
	}
	return text
}

// Control sequences of terminals.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	beginFrame = "\x1b[?2026h" // synchronized update, if the terminal supports it
	endFrame   = "\x1b[?2026l"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// canvas draws frames over each other at the bottom of a terminal.
type canvas struct {
	screen Screen
	drawn  []int // widths of the drawn lines
	last   string
}

// draw replaces the frame. Lines must not be wider than the terminal.
func (c *canvas) draw(lines []string, columns int) {
	picture := strings.Join(lines, "\n")
	if picture == c.last {
		return
	}
	var b strings.Builder
	b.WriteString(beginFrame + hideCursor)
	c.rewind(&b, columns)
	for _, line := range lines {
		b.WriteString(line + clearLine + "\n")
	}
	b.WriteString(clearBelow + endFrame)
	c.screen.print(b.String())
	c.last, c.drawn = picture, c.drawn[:0]
	for _, line := range lines {
		c.drawn = append(c.drawn, width(line))
	}
}

// rewind moves the cursor to the start of the frame. If the terminal has become
// narrower, lines may be wrapped.
func (c *canvas) rewind(b *strings.Builder, columns int) {
	up := 0
	for _, w := range c.drawn {
		up += 1 + max(0, w-1)/max(1, columns)
	}
	if up > 0 {
		fmt.Fprintf(b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
}

// finish keeps the last frame and shows the cursor again.
func (c *canvas) finish() { c.screen.print(showCursor) }
