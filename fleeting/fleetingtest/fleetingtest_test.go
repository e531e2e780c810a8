//go:build linux

package fleetingtest_test

import (
	"crypto/rand"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/fleetingtest"
	"github.com/drover-run/drover/fleeting/fleetingtest/cloud"
	"github.com/drover-run/drover/internal/testenv"
)

// The timeouts are long: the test is about outcomes, not about the speed of a
// loaded machine.
const awaitTimeout = time.Minute

// of returns the names of the steps with an outcome.
func of(steps []fleetingtest.Step, outcome fleetingtest.Outcome) (names []string) {
	for _, s := range steps {
		if s.Outcome == outcome {
			names = append(names, s.Name)
		}
	}
	return names
}

func cloudOptions(t *testing.T, s cloud.Settings, faults ...cloud.Fault) (*cloud.Cloud, fleetingtest.Options) {
	t.Helper()
	c, err := cloud.Open(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, c.Set(s))
	require.NoError(t, c.Inject(faults...))
	return c, fleetingtest.Options{
		Plugin: fleeting.Options{
			Plugin: testenv.BuildProgram(t, ".", "./fleeting/fleetingtest/faulty"), Config: c.Config(),
		},
		Timeout: awaitTimeout,
	}
}

func TestKit_passes_a_good_plugin(t *testing.T) {
	t.Parallel()
	c, o := cloudOptions(t, cloud.Settings{Suspends: true, CreateTime: 30 * time.Millisecond, DeleteTime: 30 * time.Millisecond})
	require.NoError(t, c.Appear("not-of-the-kit"))
	steps := fleetingtest.Run(t, o)
	require.Empty(t, of(steps, fleetingtest.Failed))
	require.Empty(t, of(steps, fleetingtest.Skipped))
	ids, err := c.IDs()
	require.NoError(t, err)
	require.Equal(t, []string{"not-of-the-kit"}, ids)
}

func TestKit_notes_what_an_older_plugin_lacks(t *testing.T) {
	t.Parallel()
	_, o := cloudOptions(t, cloud.Settings{OldProtocol: true})
	steps := fleetingtest.Run(t, o)
	require.Equal(t, []string{"Heartbeat of an unknown instance does no harm", "Heartbeat reports them healthy", "Shutdown"}, of(steps, fleetingtest.Note))
}

func TestKit_sees_that_the_dummy_is_of_the_older_wire_and_never_runs(t *testing.T) {
	t.Parallel()
	dummy := "gitlab.com/gitlab-org/fleeting/fleeting/plugin/fleeting-plugin-dummy/cmd/fleeting-plugin-dummy"
	steps, err := fleetingtest.Check(t.Context(), fleetingtest.Options{
		Plugin: fleeting.Options{
			Plugin: testenv.BuildProgram(t, "fleeting/testdata/dummy", dummy), Config: json.RawMessage(`{"MaxSize": 3, "SimulateDeleting": true, "ListenSSH": true}`),
		},
		Timeout: 5 * time.Second, InMemory: true,
	})
	require.ErrorIs(t, err, fleetingtest.ErrFailed)
	require.Equal(t, []string{"they run"}, of(steps, fleetingtest.Failed))
	require.Contains(t, of(steps, fleetingtest.Note), "it serves the calls of the protocol")
}

func TestKit_finds_faults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		settings cloud.Settings
		fault    cloud.Fault
		failed   string
	}{
		"quota":                    {settings: cloud.Settings{Quota: 1}, failed: "Increase creates instances, which Update lists"},
		"too small":                {settings: cloud.Settings{MaxSize: 1}, failed: "Init describes the group"},
		"a crash over the unknown": {fault: cloud.Fault{Call: "ConnectInfo", OnUnknown: true, Outcome: cloud.Crash}, failed: "ConnectInfo of an unknown instance is an error"},
		"a crash over a heartbeat": {fault: cloud.Fault{Call: "Heartbeat", OnUnknown: true, Outcome: cloud.Crash}, failed: "Heartbeat of an unknown instance does no harm"},
		"only one Init":            {fault: cloud.Fault{Call: "Init", After: 1, Outcome: cloud.Fail}, failed: "a second Init returns the same"},
		"a crash in Increase":      {fault: cloud.Fault{Call: "Increase", Do: 1, Outcome: cloud.Crash}, failed: "Increase creates instances, which Update lists"},
		"a crash in Decrease":      {fault: cloud.Fault{Call: "Decrease", OnUnknown: true, Outcome: cloud.Crash}, failed: "Decrease of an unknown instance does no harm"},
		"slow":                     {fault: cloud.Fault{Call: "Heartbeat", Delay: time.Hour, Times: 1}, failed: "Heartbeat of an unknown instance does no harm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, o := cloudOptions(t, tt.settings, tt.fault)
			if tt.fault.Delay > 0 {
				o.Plugin.Timeouts.Heartbeat = 100 * time.Millisecond
			}
			steps, err := fleetingtest.Check(t.Context(), o)
			require.ErrorIs(t, err, fleetingtest.ErrFailed)
			require.Contains(t, of(steps, fleetingtest.Failed), tt.failed)
			require.NoError(t, c.Inject())
			ids, err := c.IDs()
			require.NoError(t, err)
			require.Empty(t, ids, "the check deletes its instances")
		})
	}
	t.Run("a Decrease that fails", func(t *testing.T) {
		t.Parallel()
		for _, do := range []int{0, cloud.All} {
			_, o := cloudOptions(t, cloud.Settings{}, cloud.Fault{Call: "Decrease", Do: do, OnUnknown: true, Outcome: cloud.Fail})
			steps := fleetingtest.Run(t, o)
			require.Contains(t, of(steps, fleetingtest.Note), "Decrease of a known and an unknown instance")
		}
	})
	t.Run("no plugin", func(t *testing.T) {
		t.Parallel()
		program := filepath.Join(t.TempDir(), "plugin")
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho hello\n"), 0o700))
		steps, err := fleetingtest.Check(t.Context(), fleetingtest.Options{Plugin: fleeting.Options{Plugin: program}})
		require.ErrorIs(t, err, fleetingtest.ErrFailed)
		require.Len(t, steps, 1)
	})
}

func TestKit_passes_our_process_plugin(t *testing.T) {
	t.Parallel()
	config, err := json.Marshal(map[string]any{"name": "kit", "state_dir": t.TempDir(), "command": []string{"sleep", "1000"}, "max_size": 2})
	require.NoError(t, err)
	steps := fleetingtest.Run(t, fleetingtest.Options{
		Plugin:  fleeting.Options{Plugin: testenv.BuildProgram(t, "plugins", "./cmd/fleeting-plugin-process"), Config: config},
		Timeout: awaitTimeout,
	})
	require.Empty(t, of(steps, fleetingtest.Note))
}

func TestKit_passes_our_docker_plugin(t *testing.T) {
	t.Parallel()
	image := testenv.BusyboxImage(t, testenv.RequireDocker(t))
	config, err := json.Marshal(map[string]any{
		"name": "kit-" + strings.ToLower(rand.Text()[:8]), "image": image, "pull": "never", "command": []string{"sleep", "1000"},
		"network": "none", "init": true, "stop_timeout": "1s",
	})
	require.NoError(t, err)
	steps := fleetingtest.Run(t, fleetingtest.Options{
		Plugin:  fleeting.Options{Plugin: testenv.BuildProgram(t, "plugins", "./cmd/fleeting-plugin-docker"), Config: config},
		Timeout: awaitTimeout,
	})
	require.Empty(t, of(steps, fleetingtest.Note))
}

func TestKit_passes_our_static_plugin(t *testing.T) {
	t.Parallel()
	var hosts []map[string]string
	for range 2 {
		hosts = append(hosts, map[string]string{"address": listener(t)})
	}
	config, err := json.Marshal(map[string]any{"name": "kit", "state_dir": t.TempDir(), "hosts": hosts})
	require.NoError(t, err)
	steps := fleetingtest.Run(t, fleetingtest.Options{
		Plugin:  fleeting.Options{Plugin: testenv.BuildProgram(t, "plugins", "./cmd/fleeting-plugin-static"), Config: config},
		Timeout: awaitTimeout,
	})
	require.Empty(t, of(steps, fleetingtest.Note))
}

// listener returns the address of a host that accepts connections and sends
// nothing.
func listener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// commands returns the settings of the documented example: its cloud is a
// directory.
func commands(t *testing.T) json.RawMessage {
	t.Helper()
	dir := t.TempDir()
	config, err := json.Marshal(map[string]any{
		"name": "kit", "list": []string{"sh", "-c", `cd "$0" && for i in *; do [ ! -e "$i" ] || echo "$i running 127.0.0.1"; done`, dir},
		"create": []string{"sh", "-c", `: >"$0/$INSTANCE"`, dir}, "delete": []string{"sh", "-c", `rm -f "$0/$INSTANCE"`, dir},
	})
	require.NoError(t, err)
	return config
}

func TestKit_passes_the_example_in_Go(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../examples/fleets/plugin-go/main.go")
	require.NoError(t, err)
	require.Less(t, strings.Count(string(source), "\n"), 100)
	docs, err := os.ReadFile("../../docs/fleeting-plugins.md")
	require.NoError(t, err)
	require.Contains(t, string(docs), string(source), "the documentation shows a different plugin")
	steps := fleetingtest.Run(t, fleetingtest.Options{
		Plugin: fleeting.Options{
			Plugin: testenv.BuildProgram(t, "examples/fleets/plugin-go", "github.com/drover-run/drover/examples/fleets/plugin-go"), Config: commands(t),
		},
		Timeout: awaitTimeout,
	})
	require.Empty(t, of(steps, fleetingtest.Note))
}

func TestKit_passes_the_example_in_Python(t *testing.T) {
	t.Parallel()
	testenv.Use(t, "python")
	if out, err := exec.Command("/usr/bin/python3", "-c", "import grpc, google.protobuf").CombinedOutput(); err != nil {
		testenv.Missing(t, "python", strings.TrimSpace(string(out)+err.Error()), "apt-get install python3-grpcio python3-protobuf")
	}
	steps := fleetingtest.Run(t, fleetingtest.Options{
		Plugin:  fleeting.Options{Plugin: "../../examples/fleets/plugin-python/fleeting-plugin-command", Config: commands(t)},
		Timeout: awaitTimeout,
	})
	require.Empty(t, of(steps, fleetingtest.Note))
}
