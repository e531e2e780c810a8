package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/test/harness"
)

// TestBehaviours is what a run service must do: one test for each behaviour,
// by its number, through the HTTP API of one drover, all at once. A script has
// its input and what must come of it in one file; what is more than a script
// can tell is a function.
func TestBehaviours(t *testing.T) {
	t.Parallel()
	dev := startScripts(t, "behaviours")
	for name, behaviour := range map[string]func(t *testing.T, dev *harness.Dev){
		"10_load_is_spread":           loadIsSpread,
		"18_tokens_of_fifty_clients":  tokensOfFiftyClients,
		"19_limit_with_fifty_clients": limitWithFiftyClients,
		"20_events_agree_with_reads":  eventsAgreeWithReads,
		"27_secrets_are_told_nowhere": secretsAreToldNowhere,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behaviour(t, dev)
		})
	}
}

// TestScenarios plays the scripts of what Drover does beyond that.
func TestScenarios(t *testing.T) {
	t.Parallel()
	startScripts(t, "scenarios")
}

// startScripts has every script of a directory play, once its test waits for
// its subtests, on a drover that is stopped after them.
func startScripts(t *testing.T, dir string) *harness.Dev {
	t.Helper()
	temporal := harness.FreeAddress(t)
	dev := harness.StartDev(t, []string{"DROVER_DEV__SLOTS=16"}, "--executor", "shell", "--temporal", temporal)
	t.Cleanup(func() { require.NoError(t, dev.Stop()) })
	testscript.Run(t, testscript.Params{
		Dir: dir, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			s := &stage{
				t: e.T().(testing.TB), dir: e.WorkDir, server: dev.Server, token: dev.Token, temporal: temporal,
				vars: map[string]string{},
			}
			e.Values[stageKey{}] = s
			// Groups and change groups of one script are not another's.
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
