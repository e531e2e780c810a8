// Package archive packs files into streams, and unpacks streams from untrusted
// sources. An archive is a tar stream, compressed with zstd. Both directions
// use constant memory, regardless of the size, and no copy on disk.
//
// An archive preserves names, permissions, modification times, symbolic links,
// hard links between packed files, holes in sparse files, and empty
// directories. It does not preserve owners, setuid and setgid bits, and
// extended attributes. Sockets, pipes and devices are skipped.
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
	// copyBuffer is the buffer size for the content of files.
	copyBuffer = 128 << 10
	// maxWindow is the largest compression window that the decompressor
	// accepts. It bounds the memory for unpacking, and exceeds the window that
	// the compressor uses.
	maxWindow = 8 << 20
	// workers is the number of goroutines that compress or decompress, in
	// addition to the one that reads or writes files. More of them would only
	// wait for the file system.
	workers = 2
	// entryOverhead is the average space of an entry's headers and padding in a
	// tar stream.
	entryOverhead = 4 << 10

	// Keys of the records in the extended header of an entry.
	recordSparse  = "DROVER.sparse"  // a regular file has holes
	recordImplied = "DROVER.implied" // a directory is packed only for its selected descendants
	recordYes     = "1"
)

// Limits bound an archive. Zero values mean no limit.
type Limits struct {
	Entries int64 // files, directories and links
	Bytes   int64 // content of all files, before compression
}

// stream returns the maximum length of the tar stream of an archive, 0 for no
// limit.
func (l Limits) stream() int64 {
	if l.Entries <= 0 || l.Bytes <= 0 || l.Entries > (math.MaxInt64-maxTrailer-l.Bytes)/entryOverhead {
		return 0
	}
	return l.Bytes + l.Entries*entryOverhead + maxTrailer
}

// Stats count what was packed or unpacked.
type Stats struct {
	Entries int64 `json:"entries"` // without implied directories
	Bytes   int64 `json:"bytes"`   // content of all files
	Skipped int64 `json:"skipped"` // sockets, pipes and devices, and files that vanished meanwhile
}

// count adds an entry, and returns an error if it exceeds the limits.
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

// newCompressor returns a compressor that takes about 10 MiB of memory. With a
// smaller buffer, it would move the whole window in memory for every block,
// which took most of the time of packing.
func newCompressor(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers),
		zstd.WithAllLitEntropyCompression(true)) // text such as base64 has few repetitions, and few letters
}

// newDecompressor returns a decompressor that takes memory for two windows of
// the stream, for the same reason. It rejects an empty stream, which is a
// truncated archive and not an empty one.
func newDecompressor(r io.Reader) (*zstd.Decoder, error) {
	return decompressor(r, zstd.WithDecoderConcurrency(workers), zstd.WithDecoderLowmem(false))
}

// newFrugalDecompressor returns a decompressor that takes memory for one window
// of the stream, and decompresses only while it is read: a process may have
// many of them.
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

// interrupted returns the error of a context that ended.
func interrupted(ctx context.Context) error {
	return run.Errorf(run.CodeCanceled, "copy: %w", context.Cause(ctx))
}

// contextReader stops reading when its context ends.
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

// boundedReader fails if the stream exceeds a length.
type boundedReader struct {
	r     io.Reader
	limit int64 // 0: no limit
	read  int64
}

// Read implements io.Reader.
func (l *boundedReader) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if l.read += int64(n); l.limit > 0 && l.read > l.limit {
		return 0, run.Errorf(run.CodeTooLarge, "the archive has more than %d bytes when it is decompressed", l.limit)
	}
	return n, err
}
