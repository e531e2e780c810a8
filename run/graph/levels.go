package graph

import "github.com/drover-run/drover/run"

// Levels returns the levels of the nodes on which a node depends, directly or
// through others: 0 for nodes without dependencies, and else one more than the
// greatest level among its dependencies. A finally node depends on all nodes that
// are not. The nodes have no cycle.
func Levels(nodes []run.Node, target int) map[int]int {
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
		if nodes[n].Finally {
			for other := range nodes {
				if !nodes[other].Finally {
					level = max(level, visit(other)+1)
				}
			}
		}
		levels[n] = level
		return level
	}
	if target < 0 || target >= len(nodes) {
		return levels
	}
	visit(target)
	delete(levels, target)
	return levels
}
