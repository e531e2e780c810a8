package harness

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// Part names a process of a Drover that runs in parts.
type Part string

// The parts.
const (
	Temporal Part = "temporal"
	Gateway  Part = "gateway"
	Control  Part = "control"
	Executor Part = "executor"
	// Fleet runs only after StartFleets and Relayed.LaunchFleets.
	Fleet Part = "fleet"
	// Gateway2 and Control2 run after StartPairs.
	Gateway2 Part = "gateway-2"
	Control2 Part = "control-2"
)

// command is the command of drover that runs the part.
func (p Part) command() []string {
	process, _, _ := strings.Cut(string(p), "-")
	if p == Fleet {
		process = "fleet-worker"
	}
	return []string{"start", process}
}

// Parts is a Drover whose parts run as separate processes, with records in one
// SQLite file or in PostgreSQL.
type Parts struct {
	*Client
	Processes map[Part]*Process
	Dir       string
	t         testing.TB
	temporal  string
	gateway   string
	gateway2  string
	env       map[Part][]string
	executor  []string // the environment of executors
	network   *Network // nil: the parts are on loopback
}

// StartParts starts all parts; env adds to the environment of single parts.
func StartParts(t testing.TB, slots string, env map[Part][]string) *Parts {
	t.Helper()
	return startParts(t, slots, env, nil, nil, Temporal, Gateway, Control, Executor)
}

// StartPartsOn starts all parts on a network, with the executor in the host's
// namespace and the other parts in that of the servers.
func StartPartsOn(t testing.TB, network *Network, slots string) *Parts {
	t.Helper()
	return startParts(t, slots, map[Part][]string{Executor: {"DROVER_EXECUTOR__INSECURE_GATEWAY=true"}}, nil, network,
		Temporal, Gateway, Control, Executor)
}

// StartPairs starts all parts, with two gateways and two control workers, on the
// PostgreSQL database of a URL.
func StartPairs(t testing.TB, slots, database string) *Parts {
	t.Helper()
	records := []string{"DROVER_RECORDS__DRIVER=postgres", "DROVER_RECORDS__DSN=" + database}
	return startParts(t, slots, nil, records, nil, Temporal, Gateway, Control, Executor, Gateway2, Control2)
}

// StartFleets starts all parts except the executor, and a fleet worker.
func StartFleets(t testing.TB) *Parts {
	t.Helper()
	return startParts(t, "1", nil, nil, nil, Temporal, Gateway, Control, Fleet)
}

// StartInstance starts an executor on an instance of a fleet, with the labels of the fleet,
// such as a=b.
func (p *Parts) StartInstance(fleet, instance, pool string, more ...string) *Process {
	p.t.Helper()
	labels := fmt.Sprintf("DROVER_EXECUTOR__LABELS=%s=%s,%s=%s", run.LabelFleet, fleet, run.LabelInstance, instance)
	labels = strings.Join(append([]string{labels}, more...), ",")
	return Start(p.t, p.Dir, append(slices.Clone(p.executor), labels, "DROVER_EXECUTOR__TEMPORARY=true"), "start", "executor", "--id", "x-"+instance, "--pool", pool,
		"--state-dir", filepath.Join(p.Dir, "instances", instance))
}

// Temporal returns the address of the Temporal server.
func (p *Parts) Temporal() string { return p.temporal }

// Second returns a client of the second gateway.
func (p *Parts) Second() *Client { return NewClient(p.t, "http://"+p.gateway2, p.Token) }

func startParts(t testing.TB, slots string, env map[Part][]string, records []string, network *Network, parts ...Part) *Parts {
	t.Helper()
	return startPartsAt(t, loopback, slots, env, records, network, parts...)
}

// startPartsAt starts parts whose first gateway listens on the address host.
func startPartsAt(t testing.TB, host, slots string, env map[Part][]string, records []string, network *Network, parts ...Part) *Parts {
	t.Helper()
	p := &Parts{
		Processes: map[Part]*Process{}, Dir: t.TempDir(), t: t, network: network,
		temporal: FreeAddress(t), gateway: freeAddressOf(t, host), gateway2: FreeAddress(t),
	}
	if network != nil {
		p.temporal, p.gateway = networkTemporal+":7233", networkGateway+":8080"
	}
	tokens := filepath.Join(p.Dir, "tokens.yaml")
	admin := p.newToken(tokens, "admin", "admin")
	executor := p.newToken(tokens, "executor", "executor")
	require.NoError(t, os.WriteFile(filepath.Join(p.Dir, "executor.token"), []byte(executor), 0o600))
	p.env = map[Part][]string{}
	shared := []string{
		"DROVER_TEMPORAL__ADDRESS=" + p.temporal,
		"DROVER_BLOBS__URL=file://" + filepath.Join(p.Dir, "blobs"),
	}
	if records == nil {
		records = []string{"DROVER_RECORDS__PATH=" + filepath.Join(p.Dir, "records.db")}
	}
	shared = append(shared, records...)
	p.env[Temporal] = nil
	p.env[Gateway] = append([]string{"DROVER_GATEWAY__LISTEN=" + p.gateway, "DROVER_GATEWAY__TOKEN_FILE=" + tokens}, shared...)
	p.env[Gateway2] = append([]string{"DROVER_GATEWAY__LISTEN=" + p.gateway2, "DROVER_GATEWAY__TOKEN_FILE=" + tokens}, shared...)
	p.env[Control], p.env[Control2] = shared, shared
	p.env[Executor] = []string{
		"DROVER_TEMPORAL__ADDRESS=" + p.temporal,
		"DROVER_EXECUTOR__DRIVER=shell", "DROVER_EXECUTOR__POOL=shell", "DROVER_EXECUTOR__SLOTS=" + slots,
		"DROVER_EXECUTOR__STATE_DIR=" + filepath.Join(p.Dir, "executor"),
		"DROVER_EXECUTOR__GATEWAY_URL=http://" + p.gateway,
		"DROVER_EXECUTOR__TOKEN_FILE=" + filepath.Join(p.Dir, "executor.token"),
	}
	p.executor = p.env[Executor]
	p.env[Fleet] = append([]string{
		"DROVER_FLEET__STATE_DIR=" + filepath.Join(p.Dir, "fleets"), "DROVER_FLEET__PLUGIN_PATH=" + testenv.ProgramsDir(t),
	}, shared...)
	for part, more := range env {
		p.env[part] = append(slices.Clone(p.env[part]), more...)
	}
	p.Client = NewClient(t, "http://"+p.gateway, admin)
	if network != nil {
		p.http.Transport = &http.Transport{DialContext: network.dial}
	}
	for _, part := range parts {
		p.Launch(part)
	}
	for _, part := range parts {
		p.Processes[part].AwaitReady()
	}
	if slices.Contains(parts, Executor) {
		p.AwaitExecutor("online")
	}
	return p
}

// Launch starts a part, again or for the first time. It does not wait until the
// part is ready.
func (p *Parts) Launch(part Part) *Process {
	p.t.Helper()
	args := part.command()
	if part == Temporal {
		args = append(args, "--data-dir", p.Dir, "--temporal", p.temporal, "--temporal-ui", "")
	}
	p.Processes[part] = StartUnder(p.t, p.commandPrefix(part), p.Dir, p.env[part], args...)
	return p.Processes[part]
}

// commandPrefix returns the command prefix that runs a part, nil if there is none.
func (p *Parts) commandPrefix(part Part) []string {
	switch {
	case p.network == nil:
		return nil
	case part == Executor:
		return netnsCommand(p.network.host)
	default:
		return netnsCommand(p.network.servers)
	}
}

// AddExecutor starts another executor of the same pool, with a state dir of its
// own and without the variables that the test added for the first executor. more is
// added to its environment.
func (p *Parts) AddExecutor(name, slots string, more ...string) *Process {
	p.t.Helper()
	env := append([]string{}, p.executor...)
	env = append(env, "DROVER_EXECUTOR__SLOTS="+slots, "DROVER_EXECUTOR__STATE_DIR="+filepath.Join(p.Dir, name))
	return Start(p.t, p.Dir, append(env, more...), Executor.command()...)
}

// AddMember starts a member of an executor set in a cluster, with more added to
// its environment. Its pool has the name of the set.
func (p *Parts) AddMember(set, slots string, more ...string) *Process {
	p.t.Helper()
	env := append(slices.Clone(p.executor), "DROVER_EXECUTOR__DRIVER=kubernetes", "DROVER_EXECUTOR__SET="+set,
		"DROVER_EXECUTOR__POOL="+set, "DROVER_EXECUTOR__SLOTS="+slots)
	return Start(p.t, p.Dir, append(env, more...), Executor.command()...)
}

// TokenFor creates a token of another subject. Gateways accept it within a
// second, when they reload the token file.
func (p *Parts) TokenFor(name, scope string) string {
	p.t.Helper()
	return p.newToken(filepath.Join(p.Dir, "tokens.yaml"), name, scope)
}

func (p *Parts) newToken(file, name, scope string, more ...string) string {
	p.t.Helper()
	out := filepath.Join(p.Dir, name+".new")
	args := append([]string{"tokens", "create", "--name", name, "--scopes", scope, "--file", file, "--out", out}, more...)
	process := Start(p.t, p.Dir, nil, args...)
	<-process.done
	require.NoError(p.t, process.err, process.tail())
	token, err := os.ReadFile(out)
	require.NoError(p.t, err)
	return strings.TrimSpace(string(token))
}

// StartPartsWithout starts all parts except the executor, which LaunchOnHost
// starts.
func StartPartsWithout(t testing.TB, slots string) *Parts {
	t.Helper()
	return startParts(t, slots, nil, nil, nil, Temporal, Gateway, Control)
}

// HostCommand returns the command line that runs a command in a PID namespace of
// its own, as LaunchOnHost does.
func HostCommand(command ...string) []string {
	return append([]string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c", `"$@" & wait $!`, "sh"}, command...)
}

// LaunchOnHost starts the executor in a PID namespace of its own, which simulates
// a host: killing the process also kills all processes that it started. It adds
// more to the executor's environment.
func (p *Parts) LaunchOnHost(more ...string) *Process {
	p.t.Helper()
	p.Processes[Executor] = StartUnder(p.t, HostCommand(), p.Dir, append(slices.Clone(p.env[Executor]), more...), Executor.command()...)
	return p.Processes[Executor]
}

// ExecutorState returns the state of the first executor, "none" if there is none.
func (p *Parts) ExecutorState() string {
	p.t.Helper()
	status, body, err := p.Do(p.t.Context(), http.MethodGet, "/api/v1/executors", "", "")
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, status, body)
	var list struct {
		Executors []struct {
			State string `json:"state"`
		} `json:"executors"`
	}
	require.NoError(p.t, json.Unmarshal([]byte(body), &list))
	if len(list.Executors) == 0 {
		return "none"
	}
	return list.Executors[0].State
}

// AwaitExecutor waits until the first executor has the state. Its pool exists
// once it has registered.
func (p *Parts) AwaitExecutor(state string) {
	p.t.Helper()
	testenv.Await(p.t, func() (bool, string) {
		now := p.ExecutorState()
		return now == state, "the executor is " + now
	})
}
