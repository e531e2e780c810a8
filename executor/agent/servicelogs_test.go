package agent_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

// withService is a task whose service has printed something.
func withService(w *testEnv, s script) {
	w.api.hidden = []string{"the first line\nand the second", "and the second"}
	w.api.services = []run.ServiceSpec{{Name: "db"}}
	s.service = "ready\nwith the first line\nand the second\nand the second\n"
	w.script = func(run.Key) script { return s }
}

// serviceLog returns the output of the service in the log of a task, which must be directly
// before its end.
func (w *testEnv) serviceLog(task int) string {
	var text strings.Builder
	all := w.api.log(w.api.lastClaim(task))
	for i, f := range all {
		if f.Stream.Service() == "" {
			continue
		}
		require.Equal(w.t, run.ServiceStream("db"), f.Stream)
		if i+1 < len(all) {
			require.Contains(w.t, []run.FrameKind{run.FrameOutput, run.FrameTaskEnd}, all[i+1].Kind)
			require.NotEqual(w.t, run.StreamStdout, all[i+1].Stream)
		}
		text.Write(f.Data)
	}
	return text.String()
}

// The output of services is in the log once, masked, wherever the process is killed: also if
// the next one, which does not know the secrets, finds more output.
func TestAgent_service_logs_over_a_restart(t *testing.T) {
	t.Parallel()
	const want = "ready\nwith ***\n***\n"
	for _, point := range agent.Failpoints() {
		for _, away := range []time.Duration{0, 2 * time.Minute} {
			t.Run(fmt.Sprintf("%s/away_%s", point, away), func(t *testing.T) {
				withTestEnv(t, func(t *testing.T, w *testEnv) {
					withService(w, script{lines: 3, notes: "a service had ended"})
					h := w.newHost(1)
					p := h.start(once(point, (*process).kill))
					w.submit(0)
					<-p.ended
					w.sleep(away)
					next := h.start(nil)
					w.awaitEnd(10*time.Minute, 0)
					w.requireOnce()
					require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
					w.requireClean(h, next)
					w.requireLog(0)
					log := w.serviceLog(0)
					require.Contains(t, []string{want, want + want}, log)
					require.Empty(t, w.log.errors())
				})
			})
		}
	}
}

// The output is left out if it may contain secrets that are not those of the definition: the
// services have the ones of the definition that they were started with.
func TestAgent_service_logs_without_their_secrets(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *fakeAPI){
		"a secret that is gone":     func(s *fakeAPI) { s.fault, s.hidden = "the provider has no such secret", nil },
		"a secret that has changed": func(s *fakeAPI) { s.provided, s.hidden = true, []string{"the new one"} },
	} {
		for _, point := range []string{"", "launch", "launched"} {
			t.Run(name+"/"+point, func(t *testing.T) {
				withTestEnv(t, func(t *testing.T, w *testEnv) {
					withService(w, script{lines: 20, pause: time.Second})
					h := w.newHost(1)
					p := h.start(once(point, (*process).kill))
					w.submit(0)
					if point == "" {
						w.sleep(5 * time.Second)
						p.kill()
					}
					<-p.ended
					w.api.change(change)
					p = h.start(nil)
					w.awaitEnd(10*time.Minute, 0)
					w.requireClean(h, p)
					w.requireLog(0)
					require.Empty(t, w.serviceLog(0))
					if point == "" || w.api.fault == "" {
						require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
						return
					}
					require.Equal(t, run.StatusFailed, w.outcome(0).Status)
					require.Equal(t, run.CauseInput, w.outcome(0).Cause)
					require.Equal(t, w.api.fault, w.outcome(0).Reason)
					require.Empty(t, w.began)
				})
			})
		}
	}
}

// A gateway of an earlier version refuses frames with the output of services.
func TestAgent_service_logs_of_an_older_gateway(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		withService(w, script{lines: 3})
		w.api.old = true
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		w.requireClean(h, p)
		w.requireLog(0)
		require.Empty(t, w.serviceLog(0))
	})
}

// The frames that are in flight, and those after them, stay the same if their environment has
// other output, or is gone.
func TestAgent_service_logs_are_recorded(t *testing.T) {
	t.Parallel()
	for _, removed := range []bool{false, true} {
		t.Run(fmt.Sprint("removed_", removed), func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				withService(w, script{lines: 3, notes: "a service had ended"})
				w.api.setFramesDown(true)
				h := w.newHost(1)
				p := h.start(nil)
				w.submit(0)
				w.awaitEnd(time.Minute, 0)
				p.kill()
				<-p.ended
				if removed {
					h.drop(w.api.lastClaim(0))
				}
				p = h.start(nil)
				w.sleep(time.Minute)
				w.api.setFramesDown(false)
				w.requireClean(h, p)
				w.requireLog(0)
				require.Equal(t, "ready\nwith ***\n***\n", w.serviceLog(0))
				all := w.api.log(w.api.lastClaim(0))
				require.Equal(t, "drover: a service had ended\n", string(all[len(all)-1].Data))
			})
		})
	}
}

// A process that finds a part of the output stored sends the rest.
func TestAgent_service_logs_are_continued(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		withService(w, script{})
		w.script = func(run.Key) script { return script{lines: 3, service: strings.Repeat("a line\n", 50_000)} }
		w.api.downAfter = run.ServiceStream("db")
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		before := w.serviceLog(0)
		p.kill()
		<-p.ended
		p = h.start(nil)
		w.sleep(time.Minute)
		w.api.downAfter = ""
		w.api.setFramesDown(false)
		w.requireClean(h, p)
		w.requireLog(0)
		log := w.serviceLog(0)
		require.NotEmpty(t, before)
		require.Greater(t, len(log), len(before))
		require.True(t, strings.HasPrefix(log, before))
		require.True(t, strings.HasSuffix(log, "a line\n"))
	})
}

// An environment that ends without a result leaves the output of its services too.
func TestAgent_service_logs_of_a_vanished_environment(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		withService(w, script{lines: 3, vanish: run.Errorf(run.CodeNotFound, "out of memory")})
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		require.Equal(t, run.StatusFailed, w.outcome(0).Status)
		w.requireClean(h, p)
		w.requireLog(0)
		require.Equal(t, "ready\nwith ***\n***\n", w.serviceLog(0))
		require.Contains(t, w.lines(0), "out of memory")
	})
}

// A service may print without a bound. Its last output is kept.
func TestAgent_service_logs_are_bounded(t *testing.T) {
	for name, line := range map[string]string{"short lines": "\n", "long lines": strings.Repeat("x", 70_000) + "\n"} {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				withService(w, script{lines: 1})
				w.script = func(run.Key) script {
					return script{lines: 1, service: "the first\n" + strings.Repeat(line, 600_000/len(line)) + "the last\n"}
				}
				h := w.newHost(1)
				p := h.start(nil)
				w.submit(0)
				w.awaitEnd(time.Minute, 0)
				w.requireClean(h, p)
				w.requireLog(0)
				log := w.serviceLog(0)
				require.Less(t, len(log), run.MaxServiceLogBytes+100)
				require.Greater(t, len(log), run.MaxServiceLogBytes/2)
				require.True(t, strings.HasPrefix(log, "drover: earlier output of this service may be left out\n"), log[:100])
				require.True(t, strings.HasSuffix(log, "the last\n"))
				require.Less(t, len(w.api.log(w.api.lastClaim(0))), run.MaxServiceLogFrames+10)
			})
		})
	}
}

// An end that is not recorded has no output of services: the next process may find other
// output, or none, and would have to send the frames that are in flight. None are sent before
// the end is recorded: the next process would not know that they contain it.
func TestAgent_service_logs_of_an_unrecorded_end(t *testing.T) {
	t.Parallel()
	for _, reachable := range []bool{false, true} {
		for _, vanish := range []error{nil, run.Errorf(run.CodeNotFound, "out of memory")} {
			t.Run(fmt.Sprintf("reachable_%v/vanish_%v", reachable, vanish != nil), func(t *testing.T) {
				withTestEnv(t, func(t *testing.T, w *testEnv) {
					withService(w, script{lines: 3, vanish: vanish})
					w.api.setFramesDown(!reachable)
					s := w.newSet("set", 1)
					unavailable := true
					s.refuse = func(line []byte) error {
						if unavailable && bytes.Contains(line, []byte(`"result"`)) {
							return run.Errorf(run.CodeUnavailable, "the API server is unavailable")
						}
						return nil
					}
					p := s.start(once("frames-sent", (*process).kill))
					w.submit(0)
					<-p.ended
					s.mu.Lock()
					unavailable = false
					s.mu.Unlock()
					if !reachable {
						w.script = func(run.Key) script { return script{lines: 3} }
					}
					p = s.start(nil)
					w.sleep(time.Minute)
					w.api.setFramesDown(false)
					w.awaitEnd(10*time.Minute, 0)
					s.requireClean(p)
					w.requireLog(0)
					log := w.api.log(w.api.lastClaim(0))
					require.Equal(t, len(log)-1, slices.IndexFunc(log, func(f run.Frame) bool { return f.Kind == run.FrameTaskEnd }))
					if want := "ready\nwith ***\n***\n"; reachable {
						require.Equal(t, want+want, w.serviceLog(0)) // it was read twice
					} else {
						require.Empty(t, w.serviceLog(0))
					}
				})
			})
		}
	}
}

// The end may be unreadable in the journal, and a later batch in flight not: it contains frames
// that do not exist any more. Its bounds never change.
func TestAgent_service_logs_of_a_damaged_end(t *testing.T) {
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprint("stored ", stored), func(t *testing.T) {
			damagedEnd(t, stored)
		})
	}
}

func damagedEnd(t *testing.T, stored bool) {
	t.Helper()
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		withService(w, script{lines: 3, pause: 0})
		w.api.setFramesDown(!stored)
		h := w.newHost(1)
		p := h.start(once("frames-sent", func(p *process) {
			if stored {
				p.kill()
			}
		}))
		w.submit(0)
		w.sleep(time.Second)
		p.kill()
		<-p.ended
		damaged := 0
		require.NoError(t, filepath.WalkDir(h.dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			lines := bytes.SplitAfter(content, []byte("\n"))
			for i, line := range lines {
				if bytes.Contains(line, []byte(`"result"`)) {
					lines[i] = []byte("garbage\n")
					damaged++
				}
			}
			return os.WriteFile(path, bytes.Join(lines, nil), 0o600)
		}))
		require.Equal(t, 1, damaged)
		p = h.start(nil)
		w.sleep(time.Minute)
		w.api.setFramesDown(false)
		w.awaitEnd(10*time.Minute, 0)
		w.requireClean(h, p)
		w.requireLog(0)
		require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
		log := w.api.log(w.api.lastClaim(0))
		require.Equal(t, len(log)-1, slices.IndexFunc(log, func(f run.Frame) bool { return f.Kind == run.FrameTaskEnd }), "it has one end")
		require.Equal(t, !stored, strings.Contains(w.lines(0), "of this log are missing"))
		require.Equal(t, stored, w.serviceLog(0) != "")
	})
}

// A process that finds no output needs no secrets: the gateway may be unavailable.
func TestAgent_service_logs_without_output(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		withService(w, script{})
		w.script = func(run.Key) script { return script{lines: 20, pause: time.Second} }
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.sleep(5 * time.Second)
		p.kill()
		<-p.ended
		p = h.start(nil)
		w.awaitEnd(time.Minute, 0)
		w.requireClean(h, p)
		w.requireLog(0)
		require.Equal(t, 1, w.api.grants(w.api.lastClaim(0)))
	})
}

// A journal without room for the output of services may have room for the end.
func TestAgent_service_logs_without_room(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		withService(w, script{})
		w.script = func(run.Key) script { return script{lines: 3, service: strings.Repeat("a line\n", 10_000)} }
		s := w.newSet("set", 1)
		s.refuse = func(line []byte) error {
			if len(line) > 20_000 {
				return run.Errorf(run.CodeUnavailable, "no space is left")
			}
			return nil
		}
		recorded := make(chan bool, 1)
		p := s.start(once("ended", func(*process) {
			s.mu.Lock()
			defer s.mu.Unlock()
			recorded <- bytes.Contains(s.entries[w.api.lastClaim(0)].content, []byte(`"result"`))
		}))
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		s.requireClean(p)
		w.requireLog(0)
		require.Empty(t, w.serviceLog(0))
		require.True(t, <-recorded)
	})
}

// A log says what is missing in it, also if nothing else is left.
func TestAgent_service_logs_say_what_is_missing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script script
		want   string
	}{
		"a line that is too long":    {script{service: strings.Repeat("x", 300_000) + "\n"}, "drover: earlier output of this service may be left out\n"},
		"a log that was read partly": {script{service: "ready\n", unread: true}, "ready\ndrover: further output of this service could not be read\n"},
	} {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				withService(w, script{})
				w.script = func(run.Key) script { return c.script }
				h := w.newHost(1)
				p := h.start(nil)
				w.submit(0)
				w.awaitEnd(time.Minute, 0)
				w.requireClean(h, p)
				w.requireLog(0)
				require.Equal(t, c.want, w.serviceLog(0))
			})
		})
	}
}

// The journal of a set keeps room for what follows the output of services.
func TestAgent_service_logs_of_a_set(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setup  int // lines
		kept   bool
		bounds int // bytes of the entry
	}{
		"a short setup": {setup: 1, kept: true, bounds: 200 << 10},
		"a long setup":  {setup: 100, kept: false, bounds: 700 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				withService(w, script{})
				setup := slices.Repeat([]string{strings.Repeat("x", 4000)}, c.setup)
				w.script = func(run.Key) script {
					return script{lines: 3, setup: setup, service: strings.Repeat("a line of a service\n", 20_000)}
				}
				s := w.newSet("set", 1)
				p := s.start(nil)
				w.submit(0)
				w.awaitEnd(10*time.Minute, 0)
				s.requireClean(p)
				w.requireLog(0)
				require.Less(t, s.largest, c.bounds)
				if !c.kept {
					require.Empty(t, w.serviceLog(0))
					return
				}
				require.Greater(t, len(w.serviceLog(0)), 50<<10)
				require.True(t, strings.HasSuffix(w.serviceLog(0), "a line of a service\n"))
			})
		})
	}
}
