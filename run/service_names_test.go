package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestServiceSpec_HostNames(t *testing.T) {
	t.Parallel()
	const digest = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for image, want := range map[string][]string{
		"postgres":                          {"postgres"},
		"postgres:16":                       {"postgres"},
		"postgres:16" + digest:              {"postgres"},
		"a/b":                               {"a-b", "a__b"},
		"a/b:tag":                           {"a-b", "a__b"},
		"registry.example.com/a/b:1":        {"registry.example.com-a-b", "registry.example.com__a__b"},
		"registry.example.com:5000/a/b:1":   {"registry.example.com-a-b", "registry.example.com__a__b"},
		"localhost:5000/redis" + digest:     {"localhost-redis", "localhost__redis"},
		"registry.example.com:5000/tool:v1": {"registry.example.com-tool", "registry.example.com__tool"},
	} {
		s := run.ServiceSpec{Image: image, Aliases: []string{"db"}}
		require.Equal(t, append(want, "db"), s.HostNames(), image)
	}
	s := run.ServiceSpec{Name: "mine", Image: "a/b", Aliases: []string{"db"}}
	require.Equal(t, []string{"mine", "db"}, s.HostNames())
}

func TestDefine_services(t *testing.T) {
	t.Parallel()
	header := &run.Spec{
		Name: "n", Group: "/a/b", Secrets: map[string]run.Secret{"DB": "secret value"},
		SecretsFrom: map[string]run.SecretRef{"LATER": {Provider: "p", Name: "n"}},
	}
	task := &run.TaskSpec{
		Steps: []run.Step{{Run: "true"}},
		Services: []run.ServiceSpec{{
			Image: "a/postgres:16", Environment: map[string]string{"PORT": "1"}, ShareWorkingDir: true,
			Secrets: map[string]string{"PASSWORD": "DB", "KEY": "LATER"},
		}},
	}
	d := run.Define(header, task, run.ExpandedTask{Name: "t"}, run.Key{Run: "r"}, 1)
	require.Equal(t, run.SharedWorkingDir, d.WorkingDir)
	require.Equal(t, []string{"a-postgres", "a__postgres"}, d.Services[0].HostNames())
	require.Equal(t, map[string]string{"PORT": "1", "PASSWORD": "secret value"}, d.Services[0].Environment)
	d.Supply(map[string]run.Secret{"LATER": "of a provider"})
	require.Equal(t, map[string]string{"PORT": "1", "PASSWORD": "secret value", "KEY": "of a provider"}, d.Services[0].Environment)
	require.Equal(t, map[string]string{"PORT": "1"}, task.Services[0].Environment, "the specification stays as it is")
	require.Equal(t, 5, run.RequiredSpecVersion(&d))
	for network, want := range map[run.ServiceNetwork]int{run.ServiceNetworkShared: 5, run.ServiceNetworkOwn: 6} {
		task.ServiceNetwork = network
		d = run.Define(header, task, run.ExpandedTask{Name: "t"}, run.Key{Run: "r"}, 1)
		require.Equal(t, want, run.RequiredSpecVersion(&d), "earlier executors know only the shared network")
	}
}
