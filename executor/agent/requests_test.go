package agent_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

const content = "all of it"

// scriptArchiveStep gives every task a step that requests an archive transfer.
func (w *testEnv) scriptArchiveStep(e archiveTransfer) {
	w.script = func(run.Key) script { return script{lines: 1, transfer: &e} }
	if e.save == "" {
		w.api.archives.seen["key"] = content
	}
}

func saving() archiveTransfer    { return archiveTransfer{save: content, keys: []string{"key"}} }
func restoring() archiveTransfer { return archiveTransfer{keys: []string{"other", "key"}} }

// requireMoved checks that the transfer was done, and acknowledged once.
func (w *testEnv) requireMoved(e archiveTransfer) {
	w.t.Helper()
	r := w.outcome(0)
	require.Equal(w.t, run.StatusSuccess, r.Status, r.Reason)
	require.Contains(w.t, r.Reason, "cache key")
	require.Equal(w.t, content, w.api.archives.seen["key"])
	if e.save == "" {
		require.Contains(w.t, r.Reason, "restored")
	}
	w.requireOnce()
}

// awaitKill waits for the end of a process that a failpoint of the transfer kills,
// and reports whether it was killed. The step may end, and report its end, before
// the process receives the acknowledgement of its answer: then the process never
// reaches the following failpoint.
func (w *testEnv) awaitKill(p *process) bool {
	w.t.Helper()
	for range 3600 {
		select {
		case <-p.ended:
			return true
		default:
		}
		if len(w.ends(0)) > 0 {
			return false
		}
		advance(time.Second)
	}
	w.t.Fatal("the process was not killed, and the task did not end")
	return false
}

// TestTransfer_crash kills the process at every failpoint of a transfer, and starts the
// next one at once, well within the heartbeat timeout, or long after it.
func TestTransfer_crash(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]archiveTransfer{"save": saving(), "restore": restoring()} {
		for _, point := range agent.TransferFailpoints() {
			for _, away := range []time.Duration{0, 10 * time.Second, 2 * time.Minute} {
				t.Run(fmt.Sprintf("%s/%s/away_%s", name, point, away), func(t *testing.T) {
					withTestEnv(t, func(t *testing.T, w *testEnv) {
						w.scriptArchiveStep(e)
						h := w.newHost(1)
						p := h.start(once(point, (*process).kill))
						w.submit(0)
						killed := w.awaitKill(p)
						seen := w.api.archives.seen["key"]
						require.True(t, seen == "" || seen == content, "a part is visible: %q", seen)
						if !killed {
							w.requireMoved(e)
							return
						}
						advance(away)
						h.start(nil)
						w.awaitEnd(10*time.Minute, 0)
						w.requireMoved(e)
					})
				})
			}
		}
	}
}

// TestTransfer_freeze stops the process for a while at every failpoint of a transfer.
func TestTransfer_freeze(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]archiveTransfer{"save": saving(), "restore": restoring()} {
		for _, point := range agent.TransferFailpoints() {
			t.Run(name+"/"+point, func(t *testing.T) {
				withTestEnv(t, func(t *testing.T, w *testEnv) {
					w.scriptArchiveStep(e)
					h := w.newHost(1)
					h.start(once(point, func(p *process) { p.freeze(2 * time.Minute) }))
					w.submit(0)
					w.awaitEnd(20*time.Minute, 0)
					w.requireMoved(e)
				})
			})
		}
	}
}

// The gateway is unavailable in the middle of a transfer. The step waits, the task
// is not lost, and nothing partial is visible.
func TestTransfer_gateway_unavailable(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]archiveTransfer{"save": saving(), "restore": restoring()} {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.scriptArchiveStep(e)
				h := w.newHost(1)
				h.start(once("moving", func(*process) { w.api.setDown(true) }))
				w.submit(0)
				advance(5 * time.Minute)
				require.Empty(t, w.ends(0))
				w.api.setDown(false)
				w.awaitEnd(10*time.Minute, 0)
				w.requireMoved(e)
				require.Zero(t, w.adoptions(), "heartbeats continued")
			})
		})
	}
}

// Answers of the shim get lost: the executor repeats the transfer, and the step
// accepts one answer.
func TestTransfer_lost_answers(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]archiveTransfer{"save": saving(), "restore": restoring()} {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.scriptArchiveStep(e)
				w.lossy = true
				w.newHost(1).start(nil)
				w.submit(0)
				w.awaitEnd(10*time.Minute, 0)
				w.requireMoved(e)
			})
		})
	}
}

func TestTransfer_cut_streams(t *testing.T) {
	t.Parallel()
	away := run.Errorf(run.CodeUnavailable, "the connection broke off")
	t.Run("save", func(t *testing.T) {
		withTestEnv(t, func(t *testing.T, w *testEnv) {
			w.scriptArchiveStep(saving())
			w.api.archives.faults = []error{away, run.Errorf(run.CodeGone, "the reference expired"), errors.New("odd")}
			p := w.newHost(1).start(nil)
			w.submit(0)
			w.awaitEnd(10*time.Minute, 0)
			w.requireMoved(saving())
			got := metricValues(t, p.agent.Metrics())
			require.InDelta(t, 1, got["drover_executor_transfers_total moved save_cache"], 0)
			require.InDelta(t, 3, got["drover_executor_transfers_total interrupted save_cache"], 0)
			require.Equal(t, 4, w.api.archives.begun)
		})
	})
	t.Run("restore resumes at the offset", func(t *testing.T) {
		withTestEnv(t, func(t *testing.T, w *testEnv) {
			w.scriptArchiveStep(restoring())
			w.api.archives.cut = 2
			sum := sha256.Sum256([]byte(content))
			w.api.archives.digest = "sha256:" + hex.EncodeToString(sum[:])
			p := w.newHost(1).start(nil)
			w.submit(0)
			w.awaitEnd(10*time.Minute, 0)
			w.requireMoved(restoring())
			got := metricValues(t, p.agent.Metrics())
			require.InDelta(t, 1, got["drover_executor_transfers_total moved restore_cache"], 0)
			require.InDelta(t, len(content), got["drover_executor_transfer_bytes_total restore_cache"], 0)
			require.Equal(t, (len(content)+1)/2, w.api.archives.opened)
		})
	})
}

// Permanent faults end the step with a message.
func TestTransfer_faults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		transfer archiveTransfer
		set      func(w *testEnv)
		want     string
	}{
		"nothing may be saved":   {saving(), func(w *testEnv) { w.api.archives.refuse = run.Errorf(run.CodeInvalid, "not there") }, "not there"},
		"too large":              {saving(), func(w *testEnv) { w.api.archives.faults = []error{run.Errorf(run.CodeTooLarge, "over the limit")} }, "over the limit"},
		"gone":                   {restoring(), func(w *testEnv) { w.api.archives.refuse = run.Errorf(run.CodeGone, "was removed") }, "was removed"},
		"a broken gateway":       {saving(), func(w *testEnv) { w.api.archives.refuse = errors.New("a fault of its own") }, "a fault of its own"},
		"wrong digest":           {restoring(), func(w *testEnv) { w.api.archives.bad = run.Errorf(run.CodeInvalid, "another digest") }, "another digest"},
		"wrong digest, in parts": {restoring(), func(w *testEnv) { w.api.archives.cut, w.api.archives.digest = 2, "sha256:00" }, "its digest is sha256:"},
		"files not readable":     {saving(), func(w *testEnv) { w.packFault = run.Errorf(run.CodeUnavailable, "permission denied") }, "permission denied"},
		"no room":                {restoring(), func(w *testEnv) { w.packFault = run.Errorf(run.CodeUnavailable, "no space left") }, "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.scriptArchiveStep(tt.transfer)
				tt.set(w)
				w.newHost(1).start(nil)
				w.submit(0)
				w.awaitEnd(10*time.Minute, 0)
				r := w.outcome(0)
				require.Equal(t, run.StatusFailed, r.Status)
				require.Contains(t, r.Reason, tt.want)
				if tt.transfer.save != "" {
					require.Empty(t, w.api.archives.seen)
				}
			})
		})
	}
}

// A stop ends the step in the middle of its transfer, and nothing of it becomes
// visible.
func TestTransfer_stopped(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.scriptArchiveStep(saving())
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.await(time.Minute, func() (bool, string) {
			w.api.mu.Lock()
			defer w.api.mu.Unlock()
			return w.api.archives.begun > 0, "nothing is saved"
		})
		require.True(t, p.agent.Stop(w.api.lastClaim(0), false))
		w.awaitEnd(time.Minute, 0)
		require.Equal(t, run.StatusStopped, w.outcome(0).Status)
		advance(time.Minute)
		require.Empty(t, w.api.archives.seen)
	})
}
