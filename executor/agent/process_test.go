package agent_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

// process is one executor process on a host.
type process struct {
	w     *testEnv
	host  *host
	set   *set // nil for none
	agent *agent.Agent

	cancel context.CancelFunc
	ended  chan struct{}
	err    error // of Run

	mu     sync.Mutex
	dead   bool
	frozen chan struct{} // closed at the thaw; nil: not frozen
}

// gate blocks a frozen process and fails for a dead one. It is called before and
// after every effect of the process outside itself.
func (p *process) gate() error {
	for {
		p.mu.Lock()
		dead, frozen := p.dead, p.frozen
		p.mu.Unlock()
		switch {
		case dead:
			return run.Errorf(run.CodeUnavailable, "the process is dead")
		case frozen == nil:
			return nil
		}
		select {
		case <-frozen:
		case <-p.w.ctx.Done():
			return p.w.ctx.Err()
		}
	}
}

// runs returns an error while the process is dead or frozen.
func (p *process) runs() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.frozen != nil {
		return run.Errorf(run.CodeUnavailable, "the process does not run")
	}
	return nil
}

// gatedCall makes a call on behalf of the process.
func gatedCall[T any](p *process, f func() (T, error)) (T, error) {
	if err := p.gate(); err != nil {
		var zero T
		return zero, err
	}
	v, err := f()
	if gateErr := p.gate(); gateErr != nil {
		return v, gateErr
	}
	return v, err
}

func do(p *process, f func() error) error {
	_, err := gatedCall(p, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// faultyCall makes a call to a service on behalf of the process, with network faults:
// the response may be lost, and the request may be delayed.
func faultyCall[T any](ctx context.Context, p *process, f func() (T, error)) (T, error) {
	return gatedCall(p, func() (T, error) {
		what, delay := p.w.nextFault()
		switch what {
		case noFault:
			return f()
		case responseLost:
			_, _ = f()
		case requestDelayed:
			p.w.later(delay, func() { _, _ = f() })
		}
		var zero T
		select {
		case <-ctx.Done():
			return zero, context.Cause(ctx)
		case <-time.After(delay):
			return zero, errUnanswered
		}
	})
}

func faultyDo(ctx context.Context, p *process, f func() error) error {
	_, err := faultyCall(ctx, p, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// kill ends the process as SIGKILL does.
func (p *process) kill() {
	p.mu.Lock()
	p.dead = true
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
	p.mu.Unlock()
	p.agent.Seal()
	p.cancel()
	if err := p.agent.Unlock(); err != nil {
		p.w.t.Error(err)
	}
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// freeze stops the process for a while, as SIGSTOP does.
func (p *process) freeze(d time.Duration) {
	p.mu.Lock()
	if p.frozen == nil && !p.dead {
		frozen := make(chan struct{})
		p.frozen = frozen
		p.w.group.Go(func() {
			p.w.sleep(d)
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.frozen == frozen {
				close(frozen)
				p.frozen = nil
			}
		})
	}
	p.mu.Unlock()
	_ = p.gate()
}

type procTokens struct{ *process }

func (p procTokens) Heartbeat(ctx context.Context, token []byte, d agent.HeartbeatDetails) error {
	return faultyDo(ctx, p.process, func() error { return p.w.tokens.heartbeat(token, d) })
}

func (p procTokens) Complete(ctx context.Context, token []byte, out agent.Outcome) error {
	return faultyDo(ctx, p.process, func() error { return p.w.tokens.complete(token, out) })
}

type procAPI struct{ *process }

func (p procAPI) Register(ctx context.Context, e run.Executor) (run.DesiredState, error) {
	return faultyCall(ctx, p.process, func() (run.DesiredState, error) { return p.w.api.Register(ctx, e) })
}

func (p procAPI) Renew(ctx context.Context, r run.Renewal) (run.DesiredState, error) {
	return faultyCall(ctx, p.process, func() (run.DesiredState, error) { return p.w.api.Renew(ctx, r) })
}

func (p procAPI) Claim(ctx context.Context, c run.ClaimRequest) (run.Definition, error) {
	return faultyCall(ctx, p.process, func() (run.Definition, error) { return p.w.api.Claim(ctx, c) })
}

func (p procAPI) AppendFrames(ctx context.Context, b run.FrameBatch) error {
	return faultyDo(ctx, p.process, func() error { return p.w.api.AppendFrames(ctx, b) })
}

func (p procAPI) ClaimStates(ctx context.Context, id string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	return faultyCall(ctx, p.process, func() (map[run.Key]run.ClaimState, error) { return p.w.api.ClaimStates(ctx, id, keys) })
}

// start starts an executor process on the host.
func (h *host) start(hook func(p *process, point string, key run.Key)) *process {
	h.w.t.Helper()
	p := h.newProcess()
	h.launch(p, hook, agent.Options{StateDir: h.dir}, nil)
	return p
}

func (h *host) newProcess() *process {
	return &process{w: h.w, host: h, ended: make(chan struct{})}
}

func (h *host) launch(p *process, hook func(p *process, point string, key run.Key), o agent.Options, j executor.Journal) {
	h.w.t.Helper()
	o.Pool, o.Slots, o.DrainFinish = "pool", h.slots, h.drainFinish
	if hook != nil {
		o.OnFailpoint = func(point string, key run.Key) { hook(p, point, key) }
	}
	logger := slog.New(h.w.log)
	if testing.Verbose() && os.Getenv("DROVER_TEST_LOG") != "" {
		logger = slog.New(slog.NewTextHandler(h.w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	agent, err := agent.New(agent.Deps{
		Driver: &procDriver{process: p}, API: procAPI{p}, Tokens: procTokens{p}, Logger: logger, Journal: j,
	}, o)
	require.NoError(h.w.t, err)
	p.agent = agent
	ctx, cancel := context.WithCancel(h.w.ctx)
	p.cancel = cancel
	h.w.group.Go(func() {
		defer close(p.ended)
		p.err = agent.Run(ctx)
	})
	for range h.slots {
		h.w.group.Go(func() { p.takeTasks(ctx) })
	}
	h.w.group.Go(func() { p.pollOwnQueue(ctx, "executor:"+p.agent.ID()) })
	if p.set != nil {
		h.w.group.Go(func() { p.pollOwnQueue(ctx, "set:"+p.set.name) })
	}
}

// takeTasks is the worker of the pool's queue.
func (p *process) takeTasks(ctx context.Context) {
	for ctx.Err() == nil {
		release, err := p.agent.Reserve(ctx, "")
		if err != nil {
			return
		}
		if d := p.w.tokens.poll(ctx, "pool"); d != nil && p.gate() == nil {
			out := p.agent.Execute(ctx, agent.Delivery{
				Key: d.key, Token: []byte(d.token), Attempt: d.attempt, Last: d.details,
			})
			p.answer(d, out)
		}
		release()
	}
}

// pollOwnQueue is the worker of the executor's own queue, or its set's.
func (p *process) pollOwnQueue(ctx context.Context, queue string) {
	for ctx.Err() == nil {
		d := p.w.tokens.poll(ctx, queue)
		if d == nil || p.gate() != nil {
			return
		}
		out, err := p.agent.Adopt(ctx, agent.Adoption{Key: d.key, Token: []byte(d.token), JournalID: d.journal})
		if err == nil {
			p.answer(d, out)
		}
	}
}

func (p *process) answer(d *delivery, out agent.Outcome) {
	if !out.Pending() {
		_ = faultyDo(p.w.ctx, p, func() error { return p.w.tokens.complete([]byte(d.token), out) })
	}
}

// journalKeys returns the keys that have files in the journal of a host.
func (h *host) journalKeys() []string {
	list, err := os.ReadDir(filepath.Join(h.dir, "journal"))
	require.NoError(h.w.t, err)
	var keys []string
	for _, d := range list {
		if key, ok := strings.CutSuffix(d.Name(), ".jsonl"); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// explain returns what the process and the executor API know of keys.
func (p *process) explain(keys []string) string {
	var b strings.Builder
	for _, name := range keys {
		key, err := run.ParseKey(name)
		if err != nil {
			fmt.Fprintln(&b, err)
			continue
		}
		claims, err := p.w.api.ClaimStates(p.w.ctx, p.agent.ID(), []run.Key{key})
		fmt.Fprintf(&b, "%s: %s; claim: %s %v\n", name, p.agent.States(key), claims[key], err)
	}
	return b.String()
}

// dump returns the journal of a host and the state of its claims.
func (h *host) dump() string {
	var b strings.Builder
	for _, key := range h.journalKeys() {
		content, err := os.ReadFile(filepath.Join(h.dir, "journal", key+".jsonl"))
		fmt.Fprintf(&b, "%s: %v\n%s", key, err, content)
	}
	h.w.api.mu.Lock()
	defer h.w.api.mu.Unlock()
	for key, c := range h.w.api.claims {
		fmt.Fprintf(&b, "claim %s: %+v\n", key, *c)
	}
	return b.String()
}
