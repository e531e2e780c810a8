package run

// Upcoming counts the tasks of a pool that wait only for running tasks: not for
// a task that has not begun, and not for an approval.
func Upcoming(p Plan, pool string, status func(task int) Status) int {
	n := 0
	for _, node := range p.Nodes {
		if node.Skip || node.Approvers > 0 || node.Pool >= len(p.Pools) || p.Pools[node.Pool] != pool || !imminent(p, node, status) {
			continue
		}
		for task := node.First; task < node.First+node.Width; task++ {
			if status(task) == StatusNotStarted {
				n++
			}
		}
	}
	return n
}

// imminent reports whether all tasks on which a node depends have ended or run.
func imminent(p Plan, node Node, status func(task int) Status) bool {
	for _, edge := range node.Depends {
		if edge.Node < 0 || edge.Node >= len(p.Nodes) {
			return false
		}
		on := p.Nodes[edge.Node]
		for task := on.First; task < on.First+on.Width; task++ {
			if s := status(task); s != StatusRunning && !s.Final() {
				return false
			}
		}
	}
	return len(node.Depends) > 0
}
