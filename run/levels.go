package run

// Levels returns the levels of the nodes that one depends on, over any number
// of others: 0 for those that depend on nothing, and else one more than the
// greatest of what they depend on. The nodes have no cycle.
func Levels(nodes []Node, of int) map[int]int {
	levels := make(map[int]int)
	var visit func(n int) int
	visit = func(n int) int {
		if level, ok := levels[n]; ok {
			return level
		}
		level := 0
		for _, e := range nodes[n].Depends {
			level = max(level, visit(e.Node)+1)
		}
		levels[n] = level
		return level
	}
	if of < 0 || of >= len(nodes) {
		return levels
	}
	visit(of)
	delete(levels, of)
	return levels
}
