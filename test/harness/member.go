package harness

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
)

// Member is an executor into which a test injects faults.
type Member struct {
	Name    string
	Launch  func() *Process
	Proxies []*TCPProxy

	Process *Process
}

// NewMember starts an executor that reaches Temporal and the gateway through
// proxies of its own.
func NewMember(t *testing.T, parts *Parts, name string, env ...string) *Member {
	t.Helper()
	proxies, common := NewProxies(t, parts)
	env = append(append(common,
		"DROVER_EXECUTOR__ID="+name,
		"DROVER_EXECUTOR__STATE_DIR="+filepath.Join(parts.Dir, name),
	), env...)
	m := &Member{Name: name, Proxies: proxies, Launch: func() *Process { return Start(t, parts.Dir, env, "start", "executor") }}
	m.Process = m.Launch()
	m.Process.AwaitReady()
	return m
}

// NewProxies returns proxies to Temporal and to the gateway, and the environment
// variables of an executor that uses them.
func NewProxies(t *testing.T, parts *Parts) (proxies []*TCPProxy, env []string) {
	t.Helper()
	temporal, gateway := NewTCPProxy(t, parts.Temporal()), NewTCPProxy(t, strings.TrimPrefix(parts.Server, "http://"))
	return []*TCPProxy{temporal, gateway}, []string{
		"DROVER_TEMPORAL__ADDRESS=" + temporal.Address,
		"DROVER_EXECUTOR__GATEWAY_URL=http://" + gateway.Address,
		"DROVER_EXECUTOR__TOKEN_FILE=" + filepath.Join(parts.Dir, "executor.token"),
	}
}

// InjectFault injects one random fault into the member, repairs it, and returns the
// name of the fault.
func (m *Member) InjectFault(t *testing.T, during context.Context) string {
	t.Helper()
	faults := []string{"kill", "kill", "restart", "cut from temporal", "cut from the gateway", "cut off", "freeze"}
	if len(m.Proxies) > 2 {
		faults = append(faults, "cut from the cluster", "cut from the cluster")
	}
	name := faults[rand.IntN(len(faults))]
	m.restartIfEnded()
	switch name {
	case "kill":
		m.Process.Kill()
		m.Process = m.Launch()
	case "restart":
		m.Stop(t)
		m.Process = m.Launch()
	case "freeze":
		m.AwaitReady(t)
		m.Process.Freeze()
		sleepRandomly(during)
		m.Process.Thaw()
	default:
		cut := map[string][]*TCPProxy{
			"cut from temporal": m.Proxies[:1], "cut from the gateway": m.Proxies[1:2], "cut from the cluster": m.Proxies[2:], "cut off": m.Proxies,
		}[name]
		for _, w := range cut {
			w.Cut()
		}
		sleepRandomly(during)
		for _, w := range cut {
			w.Restore()
		}
	}
	return name
}

// restartIfEnded starts the member again if it has ended, as a Deployment does. A member
// ends by itself if it cannot reach its set at the start.
func (m *Member) restartIfEnded() {
	if !m.Process.Running() {
		m.Process = m.Launch()
	}
}

// AwaitReady waits until the member is ready, and so handles signals.
func (m *Member) AwaitReady(t *testing.T) {
	t.Helper()
	testenv.Await(t, func() (bool, string) {
		m.restartIfEnded()
		return m.Process.Ready(), "executor " + m.Name + " does not get ready"
	})
}

// Stop ends the member as SIGTERM does.
func (m *Member) Stop(t *testing.T) {
	t.Helper()
	m.AwaitReady(t)
	require.NoError(t, m.Process.Stop(), "executor %s", m.Name)
}

// sleepRandomly sleeps for 1 to 8 s, or in one of five cases for longer than the
// heartbeat timeout.
func sleepRandomly(during context.Context) {
	span := time.Duration(1+rand.IntN(8)) * time.Second
	if rand.IntN(5) == 0 {
		span = PastHeartbeat
	}
	select {
	case <-during.Done():
	case <-time.After(span): //nolint:forbidigo // the length of the fault; no condition depends on it
	}
}
