package spec

// maxSuggestion is the greatest length of words that Suggest compares.
const maxSuggestion = 40

// Suggest returns the known word that is nearest to a mistyped one, the first
// of several, or "" if none is near.
func Suggest(word string, known []string) string {
	best, limit := "", min(2, len(word)/2)+1
	for _, k := range known {
		if len(k) > maxSuggestion || len(word) > maxSuggestion {
			continue
		}
		if d := len(k) - len(word); d >= limit || -d >= limit || k == word {
			continue
		}
		if d := distance(word, k); d < limit {
			best, limit = k, d
		}
	}
	return best
}

// distance returns the number of edits that turn a into b: insertions,
// deletions and replacements of a byte, and swaps of two adjacent bytes.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, prev, cur := rows[0], rows[1], rows[2]
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
