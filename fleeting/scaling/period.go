package scaling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Period is a set of minutes, written as a cron expression of five fields:
// minute, hour, day of the month, month, weekday. It is a range of time, not a
// list of instants: "* 9-17 * * 1-5" is every minute of office hours, and "0 9
// * * *" is one minute a day.
//
// This package parses the fields itself, because they are only sets of small
// numbers. Cron libraries parse an expression to find the next instant. The
// common one, robfig/cron, rejects weekday 7, accepts "@every" and time zones
// inside an expression, and panics on some of the latter.
type Period struct {
	minutes, hours, days, months, weekdays uint64
	// everyDay and everyWeekday report that the field begins with a star. As in
	// every cron, a day must match both fields, or either one if both are
	// restricted.
	everyDay, everyWeekday bool
}

// cronField is one field of an expression.
type cronField struct {
	name     string
	min, max int
	words    []string // names of the numbers from min on
}

func cronFields() [5]cronField {
	return [5]cronField{
		{name: "minute", max: 59},
		{name: "hour", max: 23},
		{name: "day of the month", min: 1, max: 31},
		{name: "month", min: 1, max: 12, words: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
		{name: "weekday", max: 7, words: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
	}
}

// ParsePeriod parses a cron expression.
func ParsePeriod(expression string) (Period, error) {
	words := strings.Fields(expression)
	fields := cronFields()
	if len(words) != len(fields) {
		return Period{}, fmt.Errorf("%d fields instead of five: minute, hour, day of the month, month and weekday", len(words))
	}
	var sets [5]uint64
	for i, f := range fields {
		var err error
		if sets[i], err = f.parse(words[i]); err != nil {
			return Period{}, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	const sunday, alias = 1 << 0, 1 << 7
	if sets[4]&alias != 0 {
		sets[4] = sets[4]&^alias | sunday
	}
	return Period{
		minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], weekdays: sets[4],
		everyDay: words[2][0] == '*', everyWeekday: words[4][0] == '*',
	}, nil
}

// Contains reports whether the minute of t, in t's location, belongs to the
// period.
func (p Period) Contains(t time.Time) bool {
	if !has(p.minutes, t.Minute()) || !has(p.hours, t.Hour()) || !has(p.months, int(t.Month())) {
		return false
	}
	day, weekday := has(p.days, t.Day()), has(p.weekdays, int(t.Weekday()))
	if p.everyDay || p.everyWeekday {
		return day && weekday
	}
	return day || weekday
}

func has(set uint64, i int) bool { return set&(1<<i) != 0 }

// parse parses a list of numbers, ranges and steps.
func (f cronField) parse(text string) (uint64, error) {
	var set uint64
	for term := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(term, "/")
		first, last, err := f.span(span, stepped)
		if err != nil {
			return 0, err
		}
		by := 1
		if stepped {
			if by, err = number(step); err != nil || by < 1 {
				return 0, fmt.Errorf("%q is not a step, which must be a number of at least 1", step)
			}
		}
		for i := first; i <= last; i += by {
			set |= 1 << i
		}
	}
	return set, nil
}

// span parses a star, a number or a range. A number with a step extends to the
// end of the field.
func (f cronField) span(text string, stepped bool) (first, last int, err error) {
	if text == "*" {
		if f.max == 7 {
			return 0, 6, nil // 7 is also Sunday
		}
		return f.min, f.max, nil
	}
	from, to, ranged := strings.Cut(text, "-")
	if first, err = f.value(from); err != nil {
		return 0, 0, err
	}
	switch {
	case ranged:
		last, err = f.value(to)
	case stepped:
		last = f.max
	default:
		last = first
	}
	if err == nil && ranged && last == 0 && first > 0 && f.max == 7 {
		last = 7 // a week that ends with Sunday
	}
	if err == nil && last < first {
		err = fmt.Errorf("%q ends before it begins; write %s-%d,%d-%s", text, from, f.max, f.min, to)
	}
	return first, last, err
}

func (f cronField) value(text string) (int, error) {
	if i := slices.Index(f.words, strings.ToLower(text)); i >= 0 {
		return f.min + i, nil
	}
	i, err := number(text)
	if err != nil || i < f.min || i > f.max {
		return 0, fmt.Errorf("%q is not a number from %d to %d", text, f.min, f.max)
	}
	return i, nil
}

// number accepts only digits: no sign, and no more digits than any field needs.
func number(text string) (int, error) {
	i, err := strconv.ParseUint(text, 10, 16)
	return int(i), err
}
