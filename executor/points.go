package executor

// point names a place in the protocol, between two side effects, where a
// process can be killed or frozen. Tests stop there.
type point string

// The points, in the order of a task's life.
const (
	pointDelivered point = "delivered" // nothing was done yet
	pointHeartbeat point = "heartbeat" // the first heartbeat was answered
	pointClaimed   point = "claimed"   // claimed is in the journal
	pointGranted   point = "granted"   // the desk has answered the claim
	pointStarting  point = "starting"  // starting is in the journal
	pointLaunch    point = "launch"    // the driver asks for the launch
	pointLaunched  point = "launched"  // launched is in the journal
	pointStarted   point = "started"   // the driver has started the environment
	pointEnd       point = "end"       // the result was read
	pointEnded     point = "ended"     // ended is in the journal
	pointShipped   point = "shipped"   // the frames were shipped, or waited for
	pointAccepted  point = "accepted"  // the completion was accepted
	pointAnswered  point = "answered"  // answered is in the journal
	pointRemoved   point = "removed"   // the environment was removed
)

// Points returns the names of the points at which Options.Interfere is called,
// in the order of a task's life.
func Points() []string {
	all := []point{
		pointDelivered, pointHeartbeat, pointClaimed, pointGranted, pointStarting, pointLaunch, pointLaunched,
		pointStarted, pointEnd, pointEnded, pointShipped, pointAccepted, pointAnswered, pointRemoved,
	}
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = string(p)
	}
	return names
}

// The points of a step that moves an archive, in their order.
const (
	pointAsked  point = "asked"  // the step's ask was read
	pointMoving point = "moving" // the first bytes were moved
	pointMoved  point = "moved"  // everything was moved and stored
	pointTold   point = "told"   // the shim has the answer
)

// TransferPoints returns the names of the points that Options.Interfere is
// called at besides, for each step that moves an archive.
func TransferPoints() []string {
	return []string{string(pointAsked), string(pointMoving), string(pointMoved), string(pointTold)}
}
