package journal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/run"
)

// The parts of the line of an output frame, as encoding/json writes it. Nearly all
// bytes of a journal are in such lines, so they are written and read here at a
// fraction of the cost; all other lines go through encoding/json.
const (
	partVersion = `{"v":1,"n":`
	partTime    = `,"t":"`
	partStep    = `","k":"` + string(run.FrameOutput) + `","s":`
	partStream  = `,"o":"`
	partData    = `","d":"`
	partEnd     = `"}`

	// The beginning of the line of any frame.
	partBegin  = `{"v":`
	partNumber = `,"n":`
)

// endMark is contained in the line of the last frame, and in no other: within a
// string its quotes would be escaped.
const endMark = `"k":"` + string(run.FrameTaskEnd) + `"`

// appendFrame appends the frame as a line of JSON.
func appendFrame(buf []byte, f *run.Frame) []byte {
	if isOutput(f) {
		buf = append(buf, partVersion...)
		buf = strconv.AppendInt(buf, f.N, 10)
		buf = append(buf, partTime...)
		buf = f.Time.AppendFormat(buf, time.RFC3339Nano)
		buf = append(buf, partStep...)
		buf = strconv.AppendInt(buf, int64(f.Step), 10)
		buf = append(append(buf, partStream...), f.Stream...)
		buf = append(buf, partData...)
		buf = base64.StdEncoding.AppendEncode(buf, f.Data)
		return append(buf, partEnd+"\n"...)
	}
	text, err := json.Marshal(f)
	if err != nil { // only times outside years 0..9999 could
		*f = undated(*f)
		text, _ = json.Marshal(f) //nolint:errchkjson // it has no such times any more
	}
	return append(append(buf, text...), '\n')
}

// undated returns the frame without its times and those of its result.
func undated(f run.Frame) run.Frame {
	f.Time = time.Time{}
	if f.Result != nil {
		r := *f.Result
		r.Started, r.Ended, r.Steps = time.Time{}, time.Time{}, slices.Clone(r.Steps)
		for i := range r.Steps {
			r.Steps[i].Started, r.Steps[i].Ended = time.Time{}, time.Time{}
		}
		f.Result = &r
	}
	return f
}

// isOutput reports whether the frame is an output frame without other fields.
func isOutput(f *run.Frame) bool {
	year := f.Time.Year()
	return f.Version == 1 && f.Kind == run.FrameOutput && (f.Stream == run.StreamStdout || f.Stream == run.StreamStderr) && len(f.Data) > 0 &&
		f.Status == "" && f.ExitCode == nil && !f.TimedOut && f.Outputs == nil && f.Result == nil &&
		year > 0 && year < 10000 && f.Time.Location() == time.UTC
}

// Decode reads a line of a journal. Errors wrap ErrDamaged.
func Decode(line []byte) (run.Frame, error) {
	if f, ok := decodeOutput(line); ok {
		return f, nil
	}
	var f run.Frame
	if err := json.Unmarshal(line, &f); err != nil {
		return f, Damaged("the journal has a line that is not a frame: %v", err)
	}
	if f.Version < 1 || f.Version > run.FrameVersion {
		return f, Damaged("the journal has a frame of version %d; up to %d are supported", f.Version, run.FrameVersion)
	}
	return f, nil
}

// decodeOutput reads the line of an output frame.
func decodeOutput(line []byte) (run.Frame, bool) {
	f := run.Frame{Version: 1, Kind: run.FrameOutput}
	number, rest, ok := between(line, partVersion, partTime)
	if !ok {
		return f, false
	}
	var err error
	if f.N, err = strconv.ParseInt(string(number), 10, 64); err != nil {
		return f, false
	}
	moment, rest, ok := bytes.Cut(rest, []byte(partStep))
	if !ok {
		return f, false
	}
	if f.Time, err = time.Parse(time.RFC3339Nano, string(moment)); err != nil {
		return f, false
	}
	step, rest, ok := bytes.Cut(rest, []byte(partStream))
	if !ok {
		return f, false
	}
	if f.Step, err = strconv.Atoi(string(step)); err != nil {
		return f, false
	}
	stream, rest, ok := bytes.Cut(rest, []byte(partData))
	if !ok {
		return f, false
	}
	if f.Stream = run.Stream(stream); f.Stream != run.StreamStdout && f.Stream != run.StreamStderr {
		return f, false
	}
	data, ok := bytes.CutSuffix(bytes.TrimSuffix(rest, []byte("\n")), []byte(partEnd))
	if !ok || bytes.IndexByte(data, '"') >= 0 {
		return f, false
	}
	f.Data = make([]byte, base64.StdEncoding.DecodedLen(len(data)))
	n, err := base64.StdEncoding.Decode(f.Data, data)
	f.Data = f.Data[:n]
	return f, err == nil
}

// numberOf returns the number of the frame in a line. It is the second field in all
// lines of appendFrame; the rest of the line is not examined.
func numberOf(line []byte) (int64, bool) {
	_, rest, ok := between(line, partBegin, partNumber)
	if !ok {
		return 0, false
	}
	end := bytes.IndexAny(rest, ",}")
	if end < 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	return n, err == nil && n > 0
}

// between returns the text between before, which must begin text, and after, and
// the rest.
func between(text []byte, before, after string) (found, rest []byte, ok bool) {
	text, ok = bytes.CutPrefix(text, []byte(before))
	if !ok {
		return nil, nil, false
	}
	return bytes.Cut(text, []byte(after))
}
