package config

import "time"

// Archives bounds workspaces, caches and artifacts, and sets how long they are
// kept. All gateways and control workers should have the same settings. 0 means
// no bound.
type Archives struct {
	MaxBytes        int64 `koanf:"max_bytes" yaml:"max_bytes"`                 // of one stored archive, compressed
	MaxEntries      int64 `koanf:"max_entries" yaml:"max_entries"`             // files, directories and links of one archive
	MaxContentBytes int64 `koanf:"max_content_bytes" yaml:"max_content_bytes"` // of the files of one archive, before compression
	CacheMaxBytes   int64 `koanf:"cache_max_bytes" yaml:"cache_max_bytes"`     // of one stored cache, compressed
	CacheTotalBytes int64 `koanf:"cache_total_bytes" yaml:"cache_total_bytes"` // of all caches; the least recently used ones are removed first
	// CacheMaxAge is how long caches are kept after their last use.
	CacheMaxAge time.Duration `koanf:"cache_max_age" yaml:"cache_max_age"`
	// WorkspaceMaxAge is how long workspaces are kept after the end of their run.
	WorkspaceMaxAge time.Duration `koanf:"workspace_max_age" yaml:"workspace_max_age"`
	// ArtifactMaxAge is how long artifacts are kept that have no retention of their
	// own.
	ArtifactMaxAge time.Duration `koanf:"artifact_max_age" yaml:"artifact_max_age"`
	// DirectMinBytes is the minimum size of archives that executors, and clients
	// that ask for it, read directly from the object store; 0: none.
	DirectMinBytes int64 `koanf:"direct_min_bytes" yaml:"direct_min_bytes"`
}

func (a Archives) validate(v *validator) {
	for _, bound := range []struct {
		key   string
		value int64
	}{
		{"archives.max_bytes", a.MaxBytes},
		{"archives.max_entries", a.MaxEntries},
		{"archives.max_content_bytes", a.MaxContentBytes},
		{"archives.cache_max_bytes", a.CacheMaxBytes},
		{"archives.cache_total_bytes", a.CacheTotalBytes},
		{"archives.cache_max_age", int64(a.CacheMaxAge)},
		{"archives.workspace_max_age", int64(a.WorkspaceMaxAge)},
		{"archives.artifact_max_age", int64(a.ArtifactMaxAge)},
		{"archives.direct_min_bytes", a.DirectMinBytes},
	} {
		if bound.value < 0 {
			v.fail(bound.key, "must not be negative; 0 is no bound")
		}
	}
}
