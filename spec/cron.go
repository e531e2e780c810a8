package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

// cronYears is how far ahead an expression must have a time.
const cronYears = 5

// Bounds of years in expressions, as Temporal has them.
const (
	minCronYear = 2000
	maxCronYear = 2100
)

// cronField is a field of a cron expression, in Temporal's grammar.
type cronField struct {
	name     string
	min, max int
	words    []string // names of the values from min on
	letters  int      // how many letters of a word are enough
}

func cronFields() []cronField {
	return []cronField{
		{name: "second", max: 59},
		{name: "minute", max: 59},
		{name: "hour", max: 23},
		{name: "day of the month", min: 1, max: 31},
		{
			name: "month", min: 1, max: 12, letters: 3,
			words: []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"},
		},
		{name: "weekday", max: 7, letters: 2, words: []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}},
		{name: "year", min: minCronYear, max: maxCronYear},
	}
}

// The indexes of cronFields.
const (
	cronSecond = iota
	cronMinute
	cronHour
	cronDay
	cronMonth
	cronWeekday
	cronYear
)

// checkCron adds the faults of the cron expressions and of the time zone.
func checkCron(l *faultList, s run.ScheduleSpec, now time.Time) {
	zone := time.UTC
	if at, err := time.LoadLocation(s.Timezone); err == nil {
		zone = at
	} else {
		defer l.add("timezone", run.FaultBadValue, noZone, quote(s.Timezone))
	}
	first, shared := -1, ""
	for i, text := range s.Cron {
		at := run.Path("cron").Index(i)
		if l.stop() {
			return
		}
		rest := strings.TrimSpace(text)
		if rest == "" || len(text) > run.MaxCronLength {
			continue // reported
		}
		own := ""
		if strings.HasPrefix(rest, "TZ=") || strings.HasPrefix(rest, "CRON_TZ=") {
			own, rest, _ = strings.Cut(rest, " ")
			_, own, _ = strings.Cut(own, "=")
		}
		if first < 0 {
			first, shared = i, own
			if in, err := time.LoadLocation(own); err != nil {
				l.add(at, run.FaultBadValue, noZone, quote(own))
			} else if own != "" {
				zone = in
			}
		}
		if own != shared || own != "" && s.Timezone != "" && own != s.Timezone {
			l.add(at, run.FaultContradiction, "all expressions of a schedule have one time zone: set it as timezone, for all of them")
		}
		checkExpression(l, at, rest, zone, now)
	}
}

const noZone = "there is no time zone %s; names are as in Europe/Berlin"

// checkExpression adds the faults of a cron expression without a time zone.
func checkExpression(l *faultList, p run.Path, text string, zone *time.Location, now time.Time) {
	text, _, _ = strings.Cut(text, "#")
	text = strings.TrimSpace(text)
	if interval, ok := strings.CutPrefix(text, "@every"); ok {
		checkEvery(l, p, strings.TrimSpace(interval))
		return
	}
	if strings.HasPrefix(text, "@") {
		names := []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
		if !slices.Contains(names, text) {
			l.add(p, run.FaultBadFormat, "%s is none of %s and @every%s", quote(text), strings.Join(names, ", "), l.didYouMean(text, names))
		}
		return
	}
	words, all := strings.Fields(text), cronFields()
	fields := []int{cronMinute, cronHour, cronDay, cronMonth, cronWeekday}
	switch len(words) {
	case len(fields):
	case len(fields) + 1:
		fields = append(fields, cronYear)
	case len(fields) + 2:
		fields = slices.Concat([]int{cronSecond}, fields, []int{cronYear})
	default:
		l.add(p, run.FaultBadFormat, "the expression has %d fields; it has 5 (minute, hour, day of the month, month, weekday), 6 (and the year) or 7 (the second first)", len(words))
		return
	}
	sets := make([]map[int]bool, len(all)) // nil: all values
	good := true
	for at, field := range fields {
		f := all[field]
		set, fault := f.parse(words[at])
		if fault != "" {
			l.add(p, run.FaultBadFormat, "field %d of %d, the %s, is %s: %s", at+1, len(words), f.name, quote(words[at]), fault)
			good = false
		}
		sets[field] = set
	}
	if good && !fires(sets, now.In(zone)) {
		l.add(p, run.FaultBadValue, "the expression has no time within %d years: day of the month, month, weekday and year never match together", cronYears)
	}
}

func checkEvery(l *faultList, p run.Path, text string) {
	interval, phase, phased := strings.Cut(text, "/")
	for _, part := range []string{interval, phase} {
		d, err := time.ParseDuration(part)
		if days, ok := strings.CutSuffix(part, "d"); ok && err != nil { // Temporal accepts days
			n, daysErr := strconv.Atoi(days)
			d, err = time.Duration(n)*24*time.Hour, daysErr
		}
		if err != nil || d < 0 {
			l.add(p, run.FaultBadFormat, "%s is not an interval: write @every 6h, or @every 6h/30m with an offset", quote("@every "+text))
			return
		}
		if !phased {
			return
		}
	}
}

// parse returns the values of a field, nil for all, or what is wrong with it.
func (f cronField) parse(text string) (set map[int]bool, fault string) {
	if text == "*" {
		return nil, ""
	}
	set = make(map[int]bool)
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			n, err := strconv.Atoi(stepText)
			if err != nil || n < 1 {
				return nil, fmt.Sprintf("after / a step of at least 1 is expected, not %s", quote(stepText))
			}
			step = n
		}
		first, last := f.min, f.max
		if span != "*" {
			from, to, ranged := strings.Cut(span, "-")
			if first, fault = f.value(from); fault != "" {
				return nil, fault
			}
			switch {
			case ranged:
				if last, fault = f.value(to); fault != "" {
					return nil, fault
				}
				if last < first {
					return nil, fmt.Sprintf("the range %s ends before it begins", quote(span))
				}
			case !stepped:
				last = first
			}
		}
		for v := first; v <= last; v += step {
			set[v] = true
		}
	}
	if f.max == 7 && set[7] { // also Sunday
		set[0] = true
	}
	return set, ""
}

func (f cronField) value(text string) (n int, fault string) {
	if f.letters > 0 && len(text) >= f.letters {
		for i, word := range f.words {
			if strings.HasPrefix(word, strings.ToLower(text)) {
				return f.min + i, ""
			}
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max {
		what := fmt.Sprintf("a number from %d to %d", f.min, f.max)
		if f.letters > 0 {
			what += " or a name such as " + f.words[1][:3]
		}
		return 0, what + " is expected"
	}
	return n, ""
}

// fires reports whether the sets have a time within cronYears from now on.
func fires(sets []map[int]bool, now time.Time) bool {
	in := func(field, v int) bool { return sets[field] == nil || sets[field][v] }
	latest := 0 // minute of the day
	for minute := range 24 * 60 {
		if in(cronHour, minute/60) && in(cronMinute, minute%60) {
			latest = minute
		}
	}
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	for day := range cronYears * 366 {
		d := today.AddDate(0, 0, day)
		if in(cronYear, d.Year()) && in(cronMonth, int(d.Month())) && in(cronDay, d.Day()) && in(cronWeekday, int(d.Weekday())) &&
			(day > 0 || latest > now.Hour()*60+now.Minute()) {
			return true
		}
	}
	return false
}
