package spec

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

// Bounds of expressions, as Temporal has them.
const (
	minCronYear    = 2000
	maxCronYear    = 2100
	maxCronComment = 200
	maxCronStep    = math.MaxInt32
)

// cronDaysPattern matches the days of an interval, which Go's durations do not
// have.
var cronDaysPattern = regexp.MustCompile(`(\d+(\.\d*)?|\.\d+)d`)

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
	var times []cronTimes
	for i, text := range s.Cron {
		at := run.Path("cron").Index(i)
		if l.stop() {
			return
		}
		rest := strings.TrimSpace(text)
		if rest == "" || len(text) > run.MaxCronLength {
			continue // reported
		}
		own, rest, comment := splitCron(rest)
		interval, every := strings.CutPrefix(rest, "@every")
		if every {
			own = "" // Temporal reads it as without a time zone
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
		if every {
			checkEvery(l, at, interval)
			continue
		}
		if n := len(comment); n > maxCronComment {
			l.add(at, run.FaultOverLimit, "the comment has %d bytes; the limit is %d", n, maxCronComment)
		}
		if sets := checkExpression(l, at, rest); sets != nil {
			times = append(times, sets)
		}
	}
	from := s.StartAt.Add(-time.Second) // a time at start_at fires
	if now.After(from) {
		from = now
	}
	from = from.In(zone)
	future := func(x cronTimes) bool { return x.after(from) }
	if len(times) > 0 && len(times) == len(s.Cron) && len(s.Intervals) == 0 && !slices.ContainsFunc(times, future) {
		at := run.Path("cron")
		if len(times) == 1 {
			at = at.Index(0)
		}
		l.add(at, run.FaultBadValue, "the schedule has no time after %s", from.Format(time.RFC3339))
	}
}

// splitCron splits an expression into its own time zone, its times and its
// comment.
func splitCron(text string) (zone, times, comment string) {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		zone, text, _ = strings.Cut(text, " ")
		_, zone, _ = strings.Cut(zone, "=")
	}
	times, comment, _ = strings.Cut(text, "#")
	return zone, strings.TrimSpace(times), strings.TrimSpace(comment)
}

const noZone = "there is no time zone %s; names are as in Europe/Berlin"

// checkExpression adds the faults of a cron expression without a time zone and
// a comment. It returns its times, or nil for a fault.
func checkExpression(l *faultList, p run.Path, text string) cronTimes {
	if strings.HasPrefix(text, "@") {
		names := map[string]string{
			"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
			"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
		}
		fields, ok := names[text]
		if !ok {
			known := slices.Sorted(maps.Keys(names))
			l.add(p, run.FaultBadFormat, "%s is none of %s and @every%s", quote(text), strings.Join(known, ", "), l.didYouMean(text, known))
			return nil
		}
		text = fields
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
		return nil
	}
	sets := make(cronTimes, len(all))
	sets[cronSecond] = map[int]bool{0: true}
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
	if !good {
		return nil
	}
	if !sets.after(time.Date(minCronYear, 1, 1, 0, 0, -1, 0, time.UTC)) {
		l.add(p, run.FaultBadValue, "the expression never has a time: day of the month, month, weekday and year never match together")
		return nil
	}
	return sets
}

// checkEvery adds the faults of what follows @every.
func checkEvery(l *faultList, p run.Path, text string) {
	interval, phase, _ := strings.Cut(strings.TrimPrefix(text, " "), "/")
	every, err := parseCronInterval(interval)
	var offset time.Duration
	if err == nil && phase != "" {
		offset, err = parseCronInterval(phase)
	}
	switch {
	case err != nil || !strings.HasPrefix(text, " "):
		l.add(p, run.FaultBadFormat, "%s is not an interval: write @every 6h, or @every 6h/30m with an offset", quote("@every"+text))
	case every < run.MinInterval:
		l.add(p, run.FaultOutOfRange, "the interval is %s; it must be at least %s", every, run.MinInterval)
	case offset < 0 || offset >= every:
		l.add(p, run.FaultOutOfRange, "the offset is %s; it must be within the interval", offset)
	}
}

// parseCronInterval parses a duration that may have days.
func parseCronInterval(text string) (time.Duration, error) {
	return time.ParseDuration(cronDaysPattern.ReplaceAllStringFunc(text, func(days string) string {
		n, err := strconv.ParseFloat(strings.TrimSuffix(days, "d"), 64)
		if err != nil {
			return days // no duration either
		}
		return fmt.Sprintf("%fh", 24*n)
	}))
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
			if err != nil || n < 1 || n > maxCronStep {
				return nil, fmt.Sprintf("after / a step from 1 to %d is expected, not %s", maxCronStep, quote(stepText))
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

// cronTimes are the values of each field; nil stands for all.
type cronTimes []map[int]bool

func (c cronTimes) has(field, v int) bool { return c[field] == nil || c[field][v] }

// last returns the greatest value of a field.
func (c cronTimes) last(field int) int {
	v := cronFields()[field].max
	for !c.has(field, v) {
		v--
	}
	return v
}

// after reports whether there is a time after at, in the zone of at.
func (c cronTimes) after(at time.Time) bool {
	year, month, day := at.Date()
	hour, minute, second := c.last(cronHour), c.last(cronMinute), c.last(cronSecond)
	for y := year; y <= maxCronYear; y++ {
		for m := time.January; m <= time.December && c.has(cronYear, y); m++ {
			if !c.has(cronMonth, int(m)) || y == year && m < month {
				continue
			}
			for d := 1; d <= 31; d++ {
				date := time.Date(y, m, d, hour, minute, second, 0, at.Location())
				today := y == year && m == month && d <= day
				if c.has(cronDay, d) && date.Month() == m && c.has(cronWeekday, int(date.Weekday())) && (!today || date.After(at)) {
					return true
				}
			}
		}
	}
	return false
}
