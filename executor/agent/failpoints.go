package agent

// failpoint names a failpoint: a moment of the protocol, between two side effects,
// where a test kills or freezes the process.
type failpoint string

// The failpoints, in the order of a task's life cycle.
const (
	pointDelivered  failpoint = "delivered"   // nothing was done yet
	pointHeartbeat  failpoint = "heartbeat"   // the first heartbeat was answered
	pointClaimed    failpoint = "claimed"     // claimed is in the journal
	pointGranted    failpoint = "granted"     // the gateway has answered the claim
	pointStarting   failpoint = "starting"    // starting is in the journal
	pointLaunch     failpoint = "launch"      // the driver requests the launch
	pointLaunched   failpoint = "launched"    // launched is in the journal
	pointStarted    failpoint = "started"     // the driver has started the environment
	pointEnd        failpoint = "end"         // the result was read
	pointEnded      failpoint = "ended"       // ended is in the journal
	pointFramesSent failpoint = "frames-sent" // the frames were stored, or the wait for them timed out
	pointAccepted   failpoint = "accepted"    // the completion was accepted
	pointAnswered   failpoint = "answered"    // answered is in the journal
	pointRemoved    failpoint = "removed"     // the environment was removed
)

// Failpoints returns the names of the failpoints at which Options.OnFailpoint is called,
// in the order of a task's life cycle.
func Failpoints() []string {
	all := []failpoint{
		pointDelivered, pointHeartbeat, pointClaimed, pointGranted, pointStarting, pointLaunch, pointLaunched,
		pointStarted, pointEnd, pointEnded, pointFramesSent, pointAccepted, pointAnswered, pointRemoved,
	}
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = string(p)
	}
	return names
}

// The failpoints of a step that moves an archive, in order.
const (
	pointAsked        failpoint = "requested"    // the step's request was read
	pointMoving       failpoint = "moving"       // the first bytes were moved
	pointMoved        failpoint = "moved"        // everything was moved and stored
	pointAcknowledged failpoint = "acknowledged" // the shim has the answer
)

// TransferFailpoints returns the names of the additional failpoints for each step that
// moves an archive.
func TransferFailpoints() []string {
	return []string{string(pointAsked), string(pointMoving), string(pointMoved), string(pointAcknowledged)}
}
