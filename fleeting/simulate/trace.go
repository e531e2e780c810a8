package simulate

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/jsonfault"
	"github.com/drover-run/drover/run"
)

// Limits of a trace.
const (
	MaxTasks = 1_000_000
	maxSpan  = 400 * 24 * time.Hour // a year, and the time until the last task ends
)

// Arrival is a task that becomes ready to run.
type Arrival struct {
	At       time.Time
	Duration time.Duration
}

// ReadTrace reads arrivals, one per line, as CSV with the header
// "time,duration" or "time,duration,slots", or as JSON objects with these keys.
// A time is in RFC 3339, or in seconds from the start, which is then a Monday.
// A duration is one such as 1m30s, or a number of seconds. slots, 1 by default,
// is the number of such tasks that arrive together. The arrivals are returned
// in the order of their times. The error lists all faults, with their lines.
func ReadTrace(r io.Reader) ([]Arrival, error) {
	in := bufio.NewReader(r)
	first, err := in.Peek(1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read a trace: %w", err)
	}
	t := &traceReader{}
	if len(first) > 0 && first[0] == '{' {
		err = t.json(in)
	} else {
		err = t.csv(in)
	}
	if err != nil {
		return nil, err
	}
	if len(t.faults) == 0 && len(t.arrivals) == 0 {
		t.fault(1, "", run.FaultRequired, "no arrivals")
	}
	slices.SortStableFunc(t.arrivals, func(a, b Arrival) int { return a.At.Compare(b.At) })
	if n := len(t.arrivals); n > 0 && t.arrivals[n-1].At.Sub(t.arrivals[0].At) > maxSpan {
		t.fault(0, "time", run.FaultOverLimit, "the trace is longer than %s", maxSpan)
	}
	if len(t.faults) > 0 {
		return nil, run.InvalidError(fmt.Sprintf("the trace has %d faults", len(t.faults)), t.faults)
	}
	return t.arrivals, nil
}

type traceReader struct {
	arrivals []Arrival
	faults   []run.Fault
}

func (t *traceReader) fault(line int, path string, code run.Code, format string, args ...any) {
	const maximum = 20 // more would only repeat the same faults
	if len(t.faults) < maximum {
		t.faults = append(t.faults, run.Fault{Path: path, Line: line, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
}

func (t *traceReader) csv(r io.Reader) error {
	rows := csv.NewReader(r)
	rows.TrimLeadingSpace, rows.Comment = true, '#'
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return notCSV(err)
	}
	if got := strings.Join(header, ","); got != "time,duration" && got != "time,duration,slots" {
		return run.Errorf(run.CodeUnreadable, "the header is %.60q and not time,duration or time,duration,slots", got)
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return notCSV(err)
		}
		line, _ := rows.FieldPos(0)
		slots := ""
		if len(row) > 2 {
			slots = row[2]
		}
		t.add(line, row[0], row[1], slots)
	}
}

// notCSV says where a trace is not CSV.
func notCSV(err error) error {
	of, ok := errors.AsType[*csv.ParseError](err)
	if !ok {
		return fmt.Errorf("read a trace: %w", err)
	}
	detail := `a quote is not closed, or within a text: a text with quotes is in quotes, and has "" for each of them`
	if errors.Is(of.Err, csv.ErrFieldCount) {
		detail = "the line has more or fewer columns than the header"
	}
	return &run.Error{
		Code: run.CodeUnreadable, Message: "the trace is not CSV", Faults: []run.Fault{{Line: of.Line, Code: run.CodeUnreadable, Detail: detail}},
	}
}

// explainRow says why a line was not decoded into row.
func explainRow(text []byte, row any, err error) string {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return jsonfault.Mismatch(kind)
	}
	if unknown := jsonfault.UnknownKeys(text, row, 1); len(unknown) > 0 {
		return unknown[0].Detail
	}
	return jsonfault.Explain(err)
}

func (t *traceReader) json(r io.Reader) error {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var row struct {
			Time     json.RawMessage `json:"time"`
			Duration json.RawMessage `json:"duration"`
			Slots    json.RawMessage `json:"slots"`
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&row); err != nil {
			t.fault(n, "", run.FaultBadFormat, "not an object with time, duration and slots: %s", explainRow(text, row, err))
			continue
		}
		t.add(n, scalar(row.Time), scalar(row.Duration), scalar(row.Slots))
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read a trace: %w", err)
	}
	return nil
}

// scalar returns the text of a string, or of a number as it is written.
func scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func (t *traceReader) add(line int, at, duration, slots string) {
	var a Arrival
	var err error
	if a.At, err = readTime(at); err != nil {
		t.fault(line, "time", run.FaultBadFormat, "%.60q is neither a time such as 2026-03-17T15:04:05Z nor seconds", at)
	}
	if a.Duration, err = readDuration(duration); err != nil {
		t.fault(line, "duration", run.FaultBadFormat, "%.60q is neither a duration such as 1m30s nor seconds", duration)
	}
	n := 1
	if slots != "" {
		if n, err = strconv.Atoi(slots); err != nil || n < 1 {
			t.fault(line, "slots", run.FaultBadFormat, "%.60q is not a valid number of tasks", slots)
		}
	}
	if len(t.arrivals)+n > MaxTasks {
		t.fault(line, "slots", run.FaultOverLimit, "more than %d tasks", MaxTasks)
	}
	if len(t.faults) == 0 {
		t.arrivals = append(t.arrivals, slices.Repeat([]Arrival{a}, n)...)
	}
}

func readTime(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UTC(), nil
	}
	d, err := readDuration(text)
	if err != nil || !strings.ContainsAny(text[len(text)-1:], "0123456789.") {
		return time.Time{}, errors.New("not a time")
	}
	monday := time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)
	return monday.Add(d), nil
}

func readDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, plain := strconv.ParseFloat(text, 64); plain == nil {
		if math.IsNaN(seconds) || math.Abs(seconds) > maxSpan.Seconds() {
			return 0, errors.New("out of range")
		}
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err == nil && (d < 0 || d > maxSpan) {
		err = errors.New("out of range")
	}
	return d, err
}
