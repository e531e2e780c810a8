package follow

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Screen is where a run is shown. All fields but Size are required; Size is
// for Live alone.
type Screen struct {
	Writer io.Writer
	// Live draws over what it has drawn; else lines are written, as into a
	// pipe.
	Live bool
	// Terminal says that Writer is a terminal, where what tasks write must not
	// move the cursor or worse.
	Terminal bool
	Colour   bool
	Unicode  bool
	// Size returns the columns and rows of the terminal.
	Size func() (columns, rows int)
	// Now is the clock.
	Now func() time.Time
	// Location is where times of day are told.
	Location *time.Location
	// Spell tells a duration.
	Spell func(time.Duration) string
}

func (s Screen) clock(t time.Time) string { return t.In(s.Location).Format(time.TimeOnly) }

func (s Screen) spell(d time.Duration) string { return s.Spell(max(0, d)) }

// print writes text. Where that fails there is nobody left to tell: a closed
// pipe ends the process, and a full disk shows in the output.
func (s Screen) print(text string) { _, _ = io.WriteString(s.Writer, text) }

// logText makes a line that a task wrote fit to be shown.
func (s Screen) logText(text string) string {
	if s.Terminal {
		return visible(text)
	}
	return text
}

// Control sequences of terminals.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	beginFrame = "\x1b[?2026h" // terminals that know it show the frame as a whole
	endFrame   = "\x1b[?2026l"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// canvas draws pictures over each other at the bottom of a terminal.
type canvas struct {
	screen Screen
	drawn  []int // widths of the lines that are drawn
	last   string
}

// draw replaces the picture. Lines must not be wider than the terminal.
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

// rewind moves to where the picture begins. Where the terminal has become
// narrower since, lines may have been wrapped.
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

// finish leaves the picture where it is and gives the cursor back.
func (c *canvas) finish() { c.screen.print(showCursor) }
