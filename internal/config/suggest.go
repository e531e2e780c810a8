package config

import (
	"fmt"
	"strings"

	"github.com/drover-run/drover/internal/suggest"
)

// suggestion returns a hint at the setting that a mistyped key may mean: one that
// differs in few letters, or a setting of another section with the same last part.
func suggestion(key string, known []string) string {
	best := suggest.Nearest(key, known)
	last := key[strings.LastIndex(key, levels)+1:]
	for _, k := range known {
		if best == "" && strings.HasSuffix(k, levels+last) {
			best = k
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}
