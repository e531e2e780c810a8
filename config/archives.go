package config

import "time"

// Archives bounds workspaces, caches and artifacts, and says how long they are
// kept. Gateways and control workers should be configured alike. 0 is no bound.
type Archives struct {
	MaxBytes        int64 `koanf:"max_bytes" yaml:"max_bytes"`                 // of one archive, as it is stored
	MaxEntries      int64 `koanf:"max_entries" yaml:"max_entries"`             // files, directories and links of one
	MaxContentBytes int64 `koanf:"max_content_bytes" yaml:"max_content_bytes"` // of its files, before compression
	CacheMaxBytes   int64 `koanf:"cache_max_bytes" yaml:"cache_max_bytes"`     // of one cache, as it is stored
	CacheTotalBytes int64 `koanf:"cache_total_bytes" yaml:"cache_total_bytes"` // of all: those go that were used longest ago
	// CacheMaxAge is how long caches stay that nobody uses.
	CacheMaxAge time.Duration `koanf:"cache_max_age" yaml:"cache_max_age"`
	// WorkspaceMaxAge is how long workspaces stay after the end of their run.
	WorkspaceMaxAge time.Duration `koanf:"workspace_max_age" yaml:"workspace_max_age"`
	// ArtifactMaxAge is how long artifacts stay that do not say it themselves.
	ArtifactMaxAge time.Duration `koanf:"artifact_max_age" yaml:"artifact_max_age"`
	// DirectMinBytes is the size from which on archives are read straight from
	// the object store, by executors and by clients that ask for it; 0: none is.
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
			v.fail(bound.key, "it must not be negative; 0 is no bound")
		}
	}
}
