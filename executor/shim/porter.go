package shim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/drover-run/drover/archive"
	"github.com/drover-run/drover/run"
)

// A porter is a process of this program that works with files for the shim, as
// the user of the steps: it packs, unpacks, or evaluates the keys of a cache. It
// gets its load as a line of JSON on stdin, before anything else, and tells what
// came of it as the last line on stderr. Archives pass through stdin and stdout.

// porterCommand is the argument that makes this program a porter.
const porterCommand = "porter"

// maxLoad bounds the line of a load: the environment of a step and its paths.
const maxLoad = 64 << 20

// load is what a porter does: one of these.
type load struct {
	Pack   *archive.Selection `json:"pack,omitempty"`
	Unpack string             `json:"unpack,omitempty"` // the directory
	Keys   *keysLoad          `json:"keys,omitempty"`
	Limits archive.Limits     `json:"limits,omitzero"`
}

// delivery is what came of it.
type delivery struct {
	Stats archive.Stats `json:"stats,omitzero"`
	Keys  []string      `json:"keys,omitempty"`
	Code  run.Code      `json:"code,omitempty"`
	Fault string        `json:"fault,omitempty"`
}

// Porter does what its stdin says, and returns the exit code of the process.
func Porter(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	d, err := port(ctx, stdin, stdout)
	if err != nil {
		d.Code, d.Fault = run.CodeOf(err), err.Error()
	}
	text, fault := json.Marshal(d)
	if fault == nil {
		_, fault = stderr.Write(append(text, '\n'))
	}
	if err != nil || fault != nil {
		return ExitFiles
	}
	return ExitDone
}

func port(ctx context.Context, stdin io.Reader, stdout io.Writer) (d delivery, err error) {
	in := bufio.NewReaderSize(stdin, readSize)
	line, err := readLine(in)
	if err != nil {
		return d, fmt.Errorf("reading what to do: %w", err)
	}
	var l load
	if err := json.Unmarshal(line, &l); err != nil {
		return d, fmt.Errorf("reading what to do: %w", err)
	}
	switch {
	case l.Pack != nil:
		d.Stats, err = archive.Pack(ctx, stdout, *l.Pack, l.Limits)
	case l.Unpack != "":
		d.Stats, err = archive.Unpack(ctx, l.Unpack, in, archive.Unpacking{Limits: l.Limits})
	case l.Keys != nil:
		d.Keys, err = l.Keys.evaluate()
	default:
		err = errors.New("there is nothing to do")
	}
	return d, err
}

// readLine reads a line that is whole.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxLoad:
			return nil, errors.New("it is too long")
		}
	}
}

// delivered reads what a porter told that has ended.
func delivered(told []byte, how exit) (delivery, error) {
	var d delivery
	lines := bytes.Split(bytes.TrimSpace(told), []byte("\n"))
	last := lines[len(lines)-1]
	switch err := json.Unmarshal(last, &d); {
	case how.signal != "":
		return d, run.Errorf(run.CodeInternal, "drover-shim was killed by signal %d (%s) in the midst of it", how.code-128, how.signal)
	case err != nil:
		first, _, _ := strings.Cut(string(lines[0]), "\n")
		return d, run.Errorf(run.CodeInternal, "drover-shim ended with code %d in the midst of it: %s", how.code, cut(first))
	case d.Code != "":
		return d, run.Errorf(d.Code, "%s", cut(d.Fault))
	}
	return d, nil
}
