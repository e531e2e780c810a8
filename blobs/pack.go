package blobs

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/klauspost/compress/zstd"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/drover-run/drover/run"
)

// A packed log is one object:
//
//	block*  index
//
// A block is a zstd frame that can be read separately. It contains frames of
// the log. Each one is a line of JSON, followed by as many bytes of raw output
// as the line states. The index is a skippable zstd frame, so that the object
// is an ordinary zstd file for any tool. It contains the list of blocks as
// JSON, compressed with zstd, and then the length of that in 4 bytes.
const (
	// blockSize is the size of a block's log: large enough to compress well,
	// and small enough to read for a few lines.
	blockSize = 256 << 10
	// indexGuess is the size of the first read from the end of the object: it
	// contains the whole index of all but large logs.
	indexGuess = 16 << 10
	// maxIndex bounds an index, which suffices for some GiB of log, and the
	// decompressed size of a block.
	maxIndex = 64 << 20
	// skippable is the magic number of a frame that decoders skip.
	skippable = 0x184D2A5D
)

// packedFrame is the line before the output of a frame.
type packedFrame struct {
	run.Frame
	Size int `json:"l,omitempty"` // of the output, instead of Data
}

// packers holds the compressor and the decompressor, which are created on first
// use.
type packers struct {
	once    sync.Once
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	err     error
}

func (p *packers) get() (*zstd.Encoder, *zstd.Decoder, error) {
	p.once.Do(func() {
		// Blocks are small, and many may be read concurrently.
		p.encoder, p.err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(blockSize), zstd.WithLowerEncoderMem(true))
		if p.err == nil {
			p.decoder, p.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxIndex))
		}
	})
	return p.encoder, p.decoder, p.err
}

// packedKey names the object of a packed log up to a frame.
func packedKey(key run.Key, last int64) string {
	return fmt.Sprintf("%s/%05d/%03d.%03d/packed.%012d.zst", "logs/"+string(key.Run), key.Task, key.Attempt, key.Dispatch, last)
}

// PackFrames stores frames, in order, as the packed log of key up to frame
// last, and returns its stored size in bytes. It replaces an existing object,
// whose writer ended before it could record the object. A call that fails or is
// killed leaves no visible object. Errors: unavailable, and those of frames.
func (s *Store) PackFrames(ctx context.Context, key run.Key, last int64, frames iter.Seq2[run.Frame, error]) (int64, error) {
	name := packedKey(key, last)
	if err := s.removeIncomplete(ctx, name); err != nil {
		return 0, err
	}
	w, err := s.create(ctx, name, false, blob.WriterOptions{ContentType: "application/zstd"})
	if err != nil {
		return 0, run.Errorf(codeOf(err), "write blob %s: %w", name, err)
	}
	p := packer{w: w, packers: &s.packers}
	if err := p.all(frames); err != nil {
		w.discard()
		return 0, run.Errorf(ownCode(err), "pack log %s: %w", key, err)
	}
	if err := w.commit(ctx); err != nil {
		return 0, run.Errorf(codeOf(err), "write blob %s: %w", name, err)
	}
	return p.at, nil
}

// ownCode returns the code of an error that comes from the store, or from the
// given frames.
func ownCode(err error) run.Code {
	if code := run.CodeOf(err); code != run.CodeInternal {
		return code
	}
	return codeOf(err)
}

// packer writes one packed log.
type packer struct {
	w       io.Writer
	packers *packers
	at      int64
	block   run.LogBlock
	plain   bytes.Buffer
	packed  []byte
	blocks  []run.LogBlock
}

func (p *packer) all(frames iter.Seq2[run.Frame, error]) error {
	for f, err := range frames {
		if err != nil {
			return err
		}
		if err := p.add(f); err != nil {
			return err
		}
	}
	if err := p.endBlock(); err != nil {
		return err
	}
	return p.index()
}

func (p *packer) add(f run.Frame) error {
	if p.plain.Len() == 0 {
		p.block.First = f.N
	}
	p.block.Last = f.N
	p.block.Add(f)
	line := packedFrame{Frame: f, Size: len(f.Data)}
	line.Data = nil
	if err := json.NewEncoder(&p.plain).Encode(line); err != nil {
		return fmt.Errorf("encode frame %d: %w", f.N, err)
	}
	p.plain.Write(f.Data)
	if p.plain.Len() < blockSize {
		return nil
	}
	return p.endBlock()
}

func (p *packer) endBlock() error {
	if p.plain.Len() == 0 {
		return nil
	}
	encoder, _, err := p.packers.get()
	if err != nil {
		return err
	}
	p.packed = encoder.EncodeAll(p.plain.Bytes(), p.packed[:0])
	p.block.At, p.block.Size = p.at, int64(len(p.packed))
	p.blocks = append(p.blocks, p.block)
	p.block = run.LogBlock{}
	p.plain.Reset()
	return p.write(p.packed)
}

func (p *packer) index() error {
	encoder, _, err := p.packers.get()
	if err != nil {
		return err
	}
	text, err := json.Marshal(p.blocks)
	if err != nil {
		return err
	}
	packed := encoder.EncodeAll(text, nil)
	out := binary.LittleEndian.AppendUint32(nil, skippable)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(packed)+4))
	out = append(out, packed...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(packed)))
	return p.write(out)
}

func (p *packer) write(data []byte) error {
	n, err := p.w.Write(data)
	p.at += int64(n)
	return err
}

// errDamaged means that an object is not a valid packed log.
var errDamaged = errors.New("the data is damaged")

// PackedBlocks returns the blocks of the packed log of key up to frame last, in
// order; size is its stored size. Errors: not_found, unavailable, internal (it
// is damaged).
func (s *Store) PackedBlocks(ctx context.Context, key run.Key, last, size int64) ([]run.LogBlock, error) {
	name := packedKey(key, last)
	tail, err := s.readRange(ctx, name, max(0, size-indexGuess), min(size, indexGuess))
	if err != nil {
		return nil, err
	}
	packed, missing := indexIn(tail)
	if all := int64(len(tail)) + missing; missing > 0 && all <= min(size, maxIndex) {
		if tail, err = s.readRange(ctx, name, size-all, all); err != nil {
			return nil, err
		}
		packed, missing = indexIn(tail)
	}
	if missing != 0 {
		return nil, run.Errorf(run.CodeInternal, "read the index of blob %s: %w", name, errDamaged)
	}
	_, decoder, err := s.packers.get()
	if err != nil {
		return nil, err
	}
	var blocks []run.LogBlock
	text, err := decoder.DecodeAll(packed, nil)
	if err == nil {
		err = json.Unmarshal(text, &blocks)
	}
	if err != nil {
		return nil, run.Errorf(run.CodeInternal, "read the index of blob %s: %w", name, err)
	}
	return blocks, nil
}

// indexIn returns the index at the end of a piece of an object, or how many
// bytes are missing before it; -1 if the piece does not end with an index.
func indexIn(tail []byte) (packed []byte, missing int64) {
	if len(tail) < 4 {
		return nil, -1
	}
	body, size := tail[:len(tail)-4], int64(binary.LittleEndian.Uint32(tail[len(tail)-4:]))
	if size > int64(len(body)) {
		return nil, size - int64(len(body))
	}
	return body[int64(len(body))-size:], 0
}

// PackedFrames returns the frames of a block of a packed log. Errors:
// not_found, unavailable, internal (it is damaged).
func (s *Store) PackedFrames(ctx context.Context, key run.Key, last int64, b run.LogBlock) ([]run.Frame, error) {
	name := packedKey(key, last)
	packed, err := s.readRange(ctx, name, b.At, b.Size)
	if err != nil {
		return nil, err
	}
	_, decoder, err := s.packers.get()
	if err != nil {
		return nil, err
	}
	plain, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, run.Errorf(run.CodeInternal, "unpack blob %s: %w", name, err)
	}
	var frames []run.Frame
	for len(plain) > 0 {
		line, rest, _ := bytes.Cut(plain, []byte("\n"))
		var f packedFrame
		if err := json.Unmarshal(line, &f); err != nil {
			return nil, run.Errorf(run.CodeInternal, "decode blob %s: %w", name, err)
		}
		if f.Size < 0 || f.Size > len(rest) {
			return nil, run.Errorf(run.CodeInternal, "decode blob %s: %w", name, errDamaged)
		}
		if f.Size > 0 {
			f.Data = rest[:f.Size:f.Size]
		}
		frames, plain = append(frames, f.Frame), rest[f.Size:]
	}
	return frames, nil
}

// DeletePacked removes a packed log. It is idempotent. Errors: unavailable.
func (s *Store) DeletePacked(ctx context.Context, key run.Key, last int64) error {
	name := packedKey(key, last)
	if err := s.removeIncomplete(ctx, name); err != nil {
		return err
	}
	return s.remove(ctx, name)
}

// readRange reads a piece of an object.
func (s *Store) readRange(ctx context.Context, name string, at, size int64) ([]byte, error) {
	if size <= 0 || size > maxIndex {
		return nil, run.Errorf(run.CodeInternal, "read blob %s: %w", name, errDamaged)
	}
	r, err := s.bucket.NewRangeReader(ctx, name, at, size, nil)
	if err != nil {
		return nil, run.Errorf(codeOf(err), "read blob %s: %w", name, err)
	}
	data := make([]byte, size)
	_, err = io.ReadFull(r, data)
	if closed := r.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, run.Errorf(codeOf(err), "read blob %s: %w", name, err)
	}
	return data, nil
}

// removeIncomplete removes the incomplete files of killed writers of an object from a
// directory. Other stores neither show nor keep uncommitted data.
func (s *Store) removeIncomplete(ctx context.Context, name string) error {
	if s.dir == nil {
		return nil
	}
	list := s.bucket.List(&blob.ListOptions{Prefix: name + "."})
	for {
		o, err := list.Next(ctx)
		switch {
		case errors.Is(err, io.EOF), gcerrors.Code(err) == gcerrors.NotFound:
			return nil
		case err != nil:
			return run.Errorf(codeOf(err), "list the incomplete files of blob %s: %w", name, err)
		}
		if err := s.remove(ctx, o.Key); err != nil {
			return err
		}
	}
}
