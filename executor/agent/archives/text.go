package archives

import (
	"fmt"

	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// archiveNoun returns the noun for the archive of a step type.
func archiveNoun(kind string) string {
	switch kind {
	case run.StepSaveCache, run.StepRestoreCache:
		return "cache"
	case run.StepSaveArtifacts:
		return "artifacts"
	}
	return "workspace"
}

func contents(s archive.Stats) string {
	noun := "files"
	if s.Entries == 1 {
		noun = "file"
	}
	return fmt.Sprintf("%d %s, %s", s.Entries, noun, size(s.Bytes))
}

// size formats a number of bytes.
func size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && value >= 1<<10 {
		value, units = value/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}
