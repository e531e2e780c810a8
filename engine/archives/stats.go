package archives

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

// cachedStats caches the statistics of stored archives.
type cachedStats struct {
	mu   sync.Mutex
	read time.Time
	last map[run.ArchiveKind]run.ArchiveStat
}

// StoredArchives returns the number and size of the stored archives, at most a
// minute old. Errors: unavailable.
func (s *Service) StoredArchives(ctx context.Context) (map[run.ArchiveKind]run.ArchiveStat, error) {
	stats := &s.stats
	stats.mu.Lock()
	defer stats.mu.Unlock()
	if stats.read.IsZero() || time.Since(stats.read) > statsAge {
		found, err := s.store.ArchiveStats(ctx)
		if err != nil {
			return nil, err
		}
		stats.read, stats.last = time.Now(), found
	}
	return maps.Clone(stats.last), nil
}
