package executor

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// ServiceLog is the last output of a service, in whole lines: a mask does not recognize a
// part of a secret.
type ServiceLog struct {
	Service string
	Pieces  []LogPiece
	Cut     bool // earlier output is or may be left out
	Broken  bool // later output could not be read

	size   int                 // of the pieces, in bytes
	inside map[run.Stream]bool // the next piece belongs to a line that was removed
}

// LogPiece is output that was written at one time: a line, or a part of one.
type LogPiece struct {
	Time   time.Time
	Stream run.Stream // StreamStdout or StreamStderr; "" if it is unknown
	Data   []byte
}

func (p LogPiece) endsLine() bool { return bytes.HasSuffix(p.Data, []byte("\n")) }

// ReadServiceLogs reads the logs of services with read, all at the same time: one that
// hangs or fails affects no other. The logs are sorted by service.
func ReadServiceLogs(services []string, read func(i int, to *ServiceLog) error) ([]ServiceLog, error) {
	logs, faults := make([]ServiceLog, len(services)), make([]error, len(services))
	var group sync.WaitGroup
	for i, service := range services {
		logs[i].Service = service
		group.Go(func() {
			if faults[i] = read(i, &logs[i]); faults[i] != nil {
				logs[i].breakOff()
			}
		})
	}
	group.Wait()
	slices.SortFunc(logs, func(a, b ServiceLog) int { return cmp.Compare(a.Service, b.Service) })
	return logs, errors.Join(faults...)
}

// Add adds a piece. It removes the first lines as long as there are more than limit bytes.
func (l *ServiceLog) Add(p LogPiece, limit int) {
	if l.inside[p.Stream] {
		l.inside[p.Stream] = !p.endsLine()
		return
	}
	l.Pieces = append(l.Pieces, p)
	l.size += len(p.Data)
	for l.size > limit {
		l.removeLine(l.Pieces[0].Stream)
	}
}

// Clip is called after the last Add if the runtime may have removed earlier output: the
// first line of each stream may be the rest of one.
func (l *ServiceLog) Clip() {
	l.Cut = true
	for _, stream := range []run.Stream{"", run.StreamStdout, run.StreamStderr} {
		l.removeLine(stream)
	}
}

// removeLine removes the first line of a stream.
func (l *ServiceLog) removeLine(stream run.Stream) {
	l.Cut = true
	if first := l.Pieces; len(first) > 0 && first[0].Stream == stream && first[0].endsLine() {
		l.size -= len(first[0].Data)
		l.Pieces = first[1:]
		return
	}
	open := true
	l.Pieces = slices.DeleteFunc(l.Pieces, func(p LogPiece) bool {
		if !open || p.Stream != stream {
			return false
		}
		open = !p.endsLine()
		l.size -= len(p.Data)
		return true
	})
	if l.inside == nil {
		l.inside = make(map[run.Stream]bool)
	}
	l.inside[stream] = open
}

// breakOff ends a log that could not be read to its end.
func (l *ServiceLog) breakOff() {
	l.Broken = true
	l.DropOpenLines()
}

// DropOpenLines removes the last line of each stream if it has no end. It is called after the
// last Add if the service may write the rest of the line later.
func (l *ServiceLog) DropOpenLines() {
	whole := make(map[run.Stream]bool)
	for i, p := range slices.Backward(l.Pieces) {
		if whole[p.Stream] = whole[p.Stream] || p.endsLine(); !whole[p.Stream] {
			l.Pieces = slices.Delete(l.Pieces, i, i+1)
		}
	}
}
