package engine

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// statsAge is how old the figures of stored archives may be: to count them is to
// look at all of them.
const statsAge = time.Minute

// archiveStats are the figures of stored archives, as they were last read.
type archiveStats struct {
	mu   sync.Mutex
	read time.Time
	last map[run.ArchiveKind]run.ArchiveStat
}

// StoredArchives counts the archives that are stored, as it was at most a minute
// ago. Errors: unavailable.
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
