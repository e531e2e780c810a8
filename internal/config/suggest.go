package config

import (
	"fmt"
	"strings"
)

// suggestion returns a hint at the setting that a mistyped key may mean: a setting of
// another section with the same last part, or one that differs in few letters.
func suggestion(key string, known []string) string {
	const far = 3
	best, least := "", far
	for _, k := range known {
		if d := distance(key, k); d < least {
			best, least = k, d
		}
	}
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

// distance returns the number of bytes to insert, delete or replace to turn a
// into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
