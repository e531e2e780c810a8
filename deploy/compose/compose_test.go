// Package compose_test checks docker-compose.yml with the parser that docker
// compose itself uses.
package compose_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/config"
)

func load(t *testing.T) *types.Project {
	t.Helper()
	file, err := filepath.Abs("../../docker-compose.yml")
	require.NoError(t, err)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  filepath.Dir(file),
		ConfigFiles: []types.ConfigFile{{Filename: file, Content: data}},
		Environment: types.Mapping{},
	}, func(o *loader.Options) { o.SkipResolveEnvironment = true })
	require.NoError(t, err)
	return project
}

func TestCompose_is_complete(t *testing.T) {
	t.Parallel()
	project := load(t)
	for _, name := range []string{"postgres", "temporal", "temporal-ui", "gateway", "control", "executor", "fleet", "prometheus"} {
		service, err := project.GetService(name)
		require.NoError(t, err)
		require.NotNil(t, service.HealthCheck, "%s has a health check", name)
		for _, port := range service.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "%s publishes on loopback only", name)
		}
		for _, volume := range service.Volumes {
			if volume.Type == types.VolumeTypeBind && strings.HasPrefix(volume.Source, filepath.Join(project.WorkingDir, "deploy")) {
				require.FileExists(t, volume.Source, name)
			}
		}
	}
}

// The configuration must know every variable that docker-compose.yml sets.
func TestCompose_settings_exist(t *testing.T) {
	t.Parallel()
	for name, service := range load(t).Services {
		var environment []string
		for key, value := range service.Environment {
			if strings.HasPrefix(key, "DROVER_") && value != nil {
				environment = append(environment, key+"="+*value)
			}
		}
		if len(environment) == 0 {
			continue
		}
		_, err := config.Load(config.Source{Environ: environment})
		require.NoError(t, err, name)
	}
}
