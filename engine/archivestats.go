package engine

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// statsAge is the maximum age of the statistics of stored archives: computing
// them reads the rows of all archives.
const statsAge = time.Minute

// archiveStats caches the statistics of stored archives.
type archiveStats struct {
	mu   sync.Mutex
	read time.Time
	last map[run.ArchiveKind]run.ArchiveStat
}

// StoredArchives returns the number and size of the stored archives, at most a
// minute old. Errors: unavailable.
func (e *Engine) StoredArchives(ctx context.Context) (map[run.ArchiveKind]run.ArchiveStat, error) {
	s := &e.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read.IsZero() || time.Since(s.read) > statsAge {
		found, err := e.store.ArchiveStats(ctx)
		if err != nil {
			return nil, err
		}
		s.read, s.last = time.Now(), found
	}
	return maps.Clone(s.last), nil
}
