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

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// A file helper is a process of this program that works with files for the shim, as
// the user of the steps: it packs, unpacks, or evaluates the keys of a cache. It
// reads its request as a line of JSON from stdin, before anything else, and writes
// its response as the last line to stderr. Archives go through stdin and stdout.

// fileHelperCommand is the argument that makes this program a file helper.
const fileHelperCommand = "file-helper"

// maxHelperRequest bounds the line of a request: the environment of a step and its paths.
const maxHelperRequest = 64 << 20

// helperRequest is the request of a file helper: one of these.
type helperRequest struct {
	Pack   *archive.Selection `json:"pack,omitempty"`
	Unpack string             `json:"unpack,omitempty"` // the directory to unpack to
	Keys   *keysRequest       `json:"keys,omitempty"`
	Limits archive.Limits     `json:"limits,omitzero"`
}

// helperResponse is the response of a file helper.
type helperResponse struct {
	Stats archive.Stats `json:"stats,omitzero"`
	Keys  []string      `json:"keys,omitempty"`
	Code  run.Code      `json:"code,omitempty"`
	Fault string        `json:"fault,omitempty"`
}

// FileHelper handles the request on stdin, and returns the exit code of the process.
func FileHelper(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	d, err := runFileHelper(ctx, stdin, stdout)
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

func runFileHelper(ctx context.Context, stdin io.Reader, stdout io.Writer) (d helperResponse, err error) {
	in := bufio.NewReaderSize(stdin, readSize)
	line, err := readLine(in)
	if err != nil {
		return d, fmt.Errorf("read the request: %w", err)
	}
	var l helperRequest
	if err := json.Unmarshal(line, &l); err != nil {
		return d, fmt.Errorf("read the request: %w", err)
	}
	switch {
	case l.Pack != nil:
		d.Stats, err = archive.Pack(ctx, stdout, *l.Pack, l.Limits)
	case l.Unpack != "":
		d.Stats, err = archive.Unpack(ctx, l.Unpack, in, archive.Unpacking{Limits: l.Limits})
	case l.Keys != nil:
		d.Keys, err = l.Keys.evaluate()
	default:
		err = errors.New("the request is empty")
	}
	return d, err
}

// readLine reads a complete line.
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
		case len(line) > maxHelperRequest:
			return nil, errors.New("the line is too long")
		}
	}
}

// parseHelperResponse parses the output of a file helper that has ended.
func parseHelperResponse(output []byte, how process.Exit) (helperResponse, error) {
	var d helperResponse
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	last := lines[len(lines)-1]
	switch err := json.Unmarshal(last, &d); {
	case how.Signal != "":
		return d, run.Errorf(run.CodeInternal, "drover-shim was killed by signal %d (%s) while it was working", how.Code-128, how.Signal)
	case err != nil:
		first, _, _ := strings.Cut(string(lines[0]), "\n")
		return d, run.Errorf(run.CodeInternal, "drover-shim ended with code %d while it was working: %s", how.Code, shortReason(first))
	case d.Code != "":
		return d, run.Errorf(d.Code, "%s", shortReason(d.Fault))
	}
	return d, nil
}
