// Package archive packs files into streams and unpacks them where nobody vouches
// for what the stream holds. An archive is a tar stream, compressed by zstd. Both
// directions take constant memory, whatever the size, and no copy on disk.
//
// What survives: names, permissions, times of change, symbolic links as they
// are, hard links among what was packed, holes in sparse files, and empty
// directories. What does not: owners, the bits that run a program as somebody
// else, extended attributes; sockets, pipes and devices are left out.
package archive

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/run"
)

const (
	// copyBuffer is how much of a file is in memory.
	copyBuffer = 128 << 10
	// maxWindow is the most that a compressed stream may look back. It bounds
	// what unpacking takes of memory, and is more than packing uses.
	maxWindow = 8 << 20
	// workers is how many goroutines compress or decompress beside the one that
	// reads or writes files. More would only make a file system wait.
	workers = 2
	// entryOverhead is what headers and padding may take of a tar stream for each
	// entry, on average.
	entryOverhead = 4 << 10

	// Names of what is noted in the extended header of an entry.
	recordSparse  = "DROVER.sparse"  // a regular file has holes
	recordImplied = "DROVER.implied" // a directory is there for what is below it alone
	recordYes     = "1"
)

// Limits bound an archive. Zero values mean no limit.
type Limits struct {
	Entries int64 // files, directories and links
	Bytes   int64 // content of all files, before compression
}

// stream returns how long the tar stream of an archive may be, 0 for no limit.
func (l Limits) stream() int64 {
	if l.Entries <= 0 || l.Bytes <= 0 || l.Entries > (math.MaxInt64-maxTrailer-l.Bytes)/entryOverhead {
		return 0
	}
	return l.Bytes + l.Entries*entryOverhead + maxTrailer
}

// Stats tell what was packed or unpacked.
type Stats struct {
	Entries int64 `json:"entries"` // without directories that are there for others alone
	Bytes   int64 `json:"bytes"`   // content of all files
	Skipped int64 `json:"skipped"` // sockets, pipes and devices, and what vanished meanwhile
}

// count adds an entry, and refuses what is beyond the limits.
func (s *Stats) count(l Limits, size int64) error {
	s.Entries++
	s.Bytes += size
	switch {
	case l.Entries > 0 && s.Entries > l.Entries:
		return run.Errorf(run.CodeTooLarge, "the archive has more than %d entries", l.Entries)
	case l.Bytes > 0 && s.Bytes > l.Bytes:
		return run.Errorf(run.CodeTooLarge, "the files of the archive have more than %d bytes", l.Bytes)
	}
	return nil
}

// newCompressor takes some 10 MiB of memory. With less, all that the stream may
// look back on would be moved in memory for every block of it, which took most of
// the time of packing.
func newCompressor(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers),
		zstd.WithAllLitEntropyCompression(true)) // text such as base64 has few repetitions, and few letters
}

// newDecompressor takes twice the window of the stream of memory, for the same
// reason. It refuses a stream of no bytes: it is no archive of nothing, but one of
// which all is missing.
func newDecompressor(r io.Reader) (*zstd.Decoder, error) {
	return decompressor(r, zstd.WithDecoderConcurrency(workers), zstd.WithDecoderLowmem(false))
}

// newFrugalDecompressor takes the window of the stream of memory, and
// decompresses only while it is read: a process may have many.
func newFrugalDecompressor(r io.Reader) (*zstd.Decoder, error) {
	return decompressor(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
}

func decompressor(r io.Reader, options ...zstd.DOption) (*zstd.Decoder, error) {
	from := bufio.NewReaderSize(r, copyBuffer)
	if _, err := from.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return zstd.NewReader(from, append(options, zstd.WithDecoderMaxWindow(maxWindow))...)
}

// interrupted is the error of a context that ended.
func interrupted(ctx context.Context) error {
	return run.Errorf(run.CodeCanceled, "copying: %w", context.Cause(ctx))
}

// contextReader ends reading with its context.
type contextReader struct {
	ctx context.Context //nolint:containedctx // of one copy
	r   io.Reader
}

// Read implements io.Reader.
func (c contextReader) Read(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, interrupted(c.ctx)
	}
	return c.r.Read(b)
}

// boundedReader fails where the stream is longer than it may be.
type boundedReader struct {
	r    io.Reader
	most int64 // 0: no limit
	read int64
}

// Read implements io.Reader.
func (l *boundedReader) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if l.read += int64(n); l.most > 0 && l.read > l.most {
		return 0, run.Errorf(run.CodeTooLarge, "the archive has more than %d bytes when it is decompressed", l.most)
	}
	return n, err
}
