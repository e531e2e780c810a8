package run

// Limits of what an executor sends of one task. The shim and the executor keep
// them by themselves; the gateway refuses what exceeds them.
const (
	MaxBatchFrames = 16 << 10 // of one batch
	MaxSetupFrames = 500      // of the setup's log, and one that says that it was cut
	MaxClaimKeys   = 10_000   // of one question for the states of claims
	// MaxStoredOutputBytes is what the outputs of a task may have once secrets in
	// them are masked: MaxOutputBytes counts before, and masking makes up to three
	// bytes of one.
	MaxStoredOutputBytes = 3 * MaxOutputBytes
)

const (
	// factCost is what a frame without output costs of a log's budget, so that
	// those are not without bound either.
	factCost = 64
	// ownLines is how many lines the executor itself may add to a log after the
	// setup's, such as why the environment ended.
	ownLines = 64
	// stepFacts is how many frames without output tell of one step: its start and
	// end, its outputs, and that it asks for an archive.
	stepFacts = 4
	// maxStoredReason leaves room for what a reason grows by on its way: each
	// invalid byte becomes a character of three.
	maxStoredReason = 4 * MaxReason
)

// LogBudget returns what the frames of one dispatch may cost where limit bytes of
// output are kept of its steps, 0 for no bound. The setup's lines, the executor's
// own and the facts about steps come on top of the limit.
func LogBudget(limit int64) int64 {
	if limit <= 0 {
		return 0
	}
	const more = (MaxSetupFrames+1+ownLines)*MaxFrameData + (stepFacts*MaxSteps+ownLines)*factCost + MaxStoredOutputBytes + maxStoredReason
	return limit + more
}

// LogCost returns what frames take of the budget of their dispatch.
func LogCost(frames []Frame) (cost int64) {
	for i := range frames {
		f := &frames[i]
		n := len(f.Data) + outputBytes(f.Outputs)
		if f.Result != nil {
			n += len(f.Result.Reason)
		}
		if f.Kind != FrameOutput || n == 0 {
			n += factCost
		}
		cost += int64(n)
	}
	return cost
}

// CheckFrames says what is wrong with a batch of frames of any task;
// nil for nothing. Errors: invalid, too_large.
func CheckFrames(frames []Frame) error {
	switch {
	case len(frames) == 0:
		return Errorf(CodeInvalid, "the batch has no frames")
	case len(frames) > MaxBatchFrames:
		return Errorf(CodeTooLarge, "the batch has %d frames; the limit is %d", len(frames), MaxBatchFrames)
	}
	for i := range frames {
		if n := frames[0].N + int64(i); frames[i].N != n || n < 1 {
			return Errorf(CodeInvalid, "frame number %d does not follow %d", frames[i].N, n-1)
		}
		if err := frames[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// check says what is wrong with a frame.
func (f *Frame) check() error {
	switch {
	case f.Version < 1 || f.Version > FrameVersion:
		return Errorf(CodeInvalid, "frame %d has version %d; this server reads versions up to %d", f.N, f.Version, FrameVersion)
	case !f.Kind.valid():
		return Errorf(CodeInvalid, "frame %d is of no known kind", f.N)
	case f.Step < SetupStep || f.Step >= MaxSteps:
		return Errorf(CodeInvalid, "frame %d is of step %d; a task has %d steps at most", f.N, f.Step, MaxSteps)
	case f.Stream != "" && f.Stream != StreamStdout && f.Stream != StreamStderr && f.Stream != StreamSystem:
		return Errorf(CodeInvalid, "frame %d is of no known stream", f.N)
	case f.Status != "" && !f.Status.Valid():
		return Errorf(CodeInvalid, "frame %d has no known status", f.N)
	case len(f.Data) > MaxFrameData:
		return Errorf(CodeTooLarge, "frame %d has more than %d bytes of output", f.N, MaxFrameData)
	case outputBytes(f.Outputs) > MaxStoredOutputBytes:
		return Errorf(CodeTooLarge, "frame %d puts out more than the %d bytes of a task", f.N, MaxStoredOutputBytes)
	}
	for key := range f.Outputs {
		if !ValidOutputKey(key) {
			return Errorf(CodeInvalid, "frame %d puts out %s, which is no key of an output", f.N, brief(key))
		}
	}
	if f.Result != nil {
		return f.checkResult()
	}
	return nil
}

func (f *Frame) checkResult() error {
	r := f.Result
	switch {
	case len(r.Reason) > maxStoredReason || len(r.Cause) > MaxNameLength:
		return Errorf(CodeTooLarge, "the result in frame %d has a reason of %d bytes; the limit is %d", f.N, len(r.Reason), MaxReason)
	case len(r.Steps) > MaxSteps:
		return Errorf(CodeTooLarge, "the result in frame %d has %d steps; the limit is %d", f.N, len(r.Steps), MaxSteps)
	case !r.Status.Valid():
		return Errorf(CodeInvalid, "the result in frame %d has no known status", f.N)
	}
	for _, s := range r.Steps {
		if s.Status != "" && !s.Status.Valid() {
			return Errorf(CodeInvalid, "the result in frame %d has a step of no known status", f.N)
		}
	}
	return nil
}

func (k FrameKind) valid() bool {
	switch k {
	case FrameOutput, FrameStepStart, FrameStepEnd, FrameOutputs, FrameAsk, FrameTaskEnd:
		return true
	}
	return false
}

// CheckOutputs says that a task has put out too much, nil where it has not. The
// error has CodeTooLarge.
func CheckOutputs(outputs map[string]string) error {
	if n := outputBytes(outputs); n > MaxStoredOutputBytes {
		return Errorf(CodeTooLarge, "the task has put out %d bytes; the limit is %d", n, MaxStoredOutputBytes)
	}
	return nil
}

func outputBytes(outputs map[string]string) (n int) {
	for key, value := range outputs {
		n += len(key) + len(value)
	}
	return n
}
