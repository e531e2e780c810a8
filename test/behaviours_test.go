package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/test/harness"
)

// TestBehaviours checks what a run service must do: one numbered subtest for
// each behaviour, in parallel, through the HTTP API of one drover. A script holds
// its input and the expected results in one file. A behaviour that a script cannot
// express is a function.
func TestBehaviours(t *testing.T) {
	t.Parallel()
	dev := startScripts(t, "behaviours")
	for name, behaviour := range map[string]func(t *testing.T, dev *harness.Dev){
		"08_finished_within_a_second": finishedWithinASecond,
		"10_load_is_spread":           loadIsSpread,
		"18_tokens_of_fifty_clients":  tokensOfFiftyClients,
		"19_limit_with_fifty_clients": limitWithFiftyClients,
		"20_events_agree_with_reads":  eventsAgreeWithReads,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behaviour(t, dev)
		})
	}
}

// TestScenarios runs the scripts of Drover's own features.
func TestScenarios(t *testing.T) {
	t.Parallel()
	startScripts(t, "scenarios")
}

// startScripts adds a parallel subtest for every script of a directory. All of
// them use one drover, which stops after the last subtest.
func startScripts(t *testing.T, dir string) *harness.Dev {
	t.Helper()
	temporal := harness.FreeAddress(t)
	dev := harness.StartDev(t, []string{"DROVER_DEV__SLOTS=16"}, "--executor", "shell", "--temporal", temporal)
	t.Cleanup(func() { require.NoError(t, dev.Stop()) })
	testscript.Run(t, testscript.Params{
		Dir: dir, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			s := &scriptEnv{
				t: e.T().(testing.TB), dir: e.WorkDir, server: dev.Server, token: dev.Token, temporal: temporal,
				vars: map[string]string{},
			}
			e.Values[scriptEnvKey{}] = s
			// Each script has a group and a change group of its own.
			name := strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")
			for variable, value := range map[string]string{
				"GROUP": "/" + dir + "/" + name, "CG": name, "DIR": e.WorkDir, "BLOBS": filepath.Join(dev.Dir, "data", "blobs"),
			} {
				s.vars[variable] = value
				e.Setenv(variable, value)
			}
			return nil
		},
		Cmds: commands(),
	})
	return dev
}
