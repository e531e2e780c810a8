package executor

// point names a failpoint: a moment of the protocol, between two side effects,
// where a test kills or freezes the process.
type point string

// The failpoints, in the order of a task's life cycle.
const (
	pointDelivered point = "delivered" // nothing was done yet
	pointHeartbeat point = "heartbeat" // the first heartbeat was answered
	pointClaimed   point = "claimed"   // claimed is in the journal
	pointGranted   point = "granted"   // the gateway has answered the claim
	pointStarting  point = "starting"  // starting is in the journal
	pointLaunch    point = "launch"    // the driver requests the launch
	pointLaunched  point = "launched"  // launched is in the journal
	pointStarted   point = "started"   // the driver has started the environment
	pointEnd       point = "end"       // the result was read
	pointEnded     point = "ended"     // ended is in the journal
	pointShipped   point = "shipped"   // the frames were stored, or the wait for them timed out
	pointAccepted  point = "accepted"  // the completion was accepted
	pointAnswered  point = "answered"  // answered is in the journal
	pointRemoved   point = "removed"   // the environment was removed
)

// Points returns the names of the failpoints at which Options.OnFailpoint is called,
// in the order of a task's life cycle.
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

// The failpoints of a step that moves an archive, in order.
const (
	pointAsked  point = "asked"  // the step's request was read
	pointMoving point = "moving" // the first bytes were moved
	pointMoved  point = "moved"  // everything was moved and stored
	pointTold   point = "told"   // the shim has the answer
)

// TransferPoints returns the names of the additional failpoints for each step that
// moves an archive.
func TransferPoints() []string {
	return []string{string(pointAsked), string(pointMoving), string(pointMoved), string(pointTold)}
}
