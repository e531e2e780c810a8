package blobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/drover-run/drover/run"
)

// PutFrames stores a batch under its key and first frame number, and returns
// its stored size in bytes. It is idempotent for the same batch. Errors:
// conflict (another batch begins with that frame), unavailable.
func (s *Store) PutFrames(ctx context.Context, b run.FrameBatch) (int64, error) {
	if len(b.Frames) == 0 {
		return 0, nil
	}
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	for i := range b.Frames {
		if err := enc.Encode(&b.Frames[i]); err != nil {
			return 0, run.Errorf(run.CodeInvalid, "encode frame %d: %w", b.Frames[i].N, err)
		}
	}
	return int64(data.Len()), s.putOnce(ctx, logKey(b.Key, b.Frames[0].N), data.Bytes(), isWholeBatch)
}

// isWholeBatch reports whether an object is a complete batch of frames.
func isWholeBatch(data []byte) bool {
	frames, err := decodeFrames(data)
	return err == nil && len(frames) > 0
}

// GetFrames returns the frames of the batch of key that begins with first.
// Errors: not_found, unavailable.
func (s *Store) GetFrames(ctx context.Context, key run.Key, first int64) ([]run.Frame, error) {
	name := logKey(key, first)
	data, err := s.get(ctx, name)
	if err != nil {
		return nil, err
	}
	frames, err := decodeFrames(data)
	if err != nil {
		return nil, run.Errorf(run.CodeInternal, "decode blob %s: %w", name, err)
	}
	return frames, nil
}

func decodeFrames(data []byte) ([]run.Frame, error) {
	var frames []run.Frame
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		var f run.Frame
		switch err := dec.Decode(&f); {
		case errors.Is(err, io.EOF):
			return frames, nil
		case err != nil:
			return nil, err
		}
		frames = append(frames, f)
	}
}

// DeleteFrames removes the batch of key that begins with first. It is
// idempotent. Errors: unavailable.
func (s *Store) DeleteFrames(ctx context.Context, key run.Key, first int64) error {
	return s.remove(ctx, logKey(key, first))
}
