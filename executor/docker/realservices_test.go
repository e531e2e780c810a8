package docker_test

import (
	"crypto/rand"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// TestDriver_postgres runs PostgreSQL as a service, whose password is a secret. A step
// with an image of its own reaches it by an alias.
func TestDriver_postgres(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	found, err := filepath.Glob("/usr/lib/postgresql/*")
	require.NoError(t, err)
	if len(found) == 0 {
		testenv.Missing(t, "postgres", "PostgreSQL is not installed", "install postgresql; it need not run")
	}
	programs := found[len(found)-1]
	image := b.imageOfHost(t, programs, filepath.Join("/usr/share/postgresql", filepath.Base(programs)))
	password := rand.Text()
	def := b.definition(t,
		`psql -h database -U postgres -Atc "select 6 * 7"`,
		`PGPASSWORD=wrong psql -h database -U postgres -Atc "select 1" 2>&1 | grep -o "password authentication failed"`,
	)
	def.WorkingDir = run.SharedWorkingDir
	def.Steps[0].Image, def.Steps[1].Image = image, image
	path := programs + "/bin:/bin:/usr/bin"
	def.Environment = map[string]string{"PGPASSWORD": password, "PATH": path}
	def.Secrets = []string{password}
	def.Services = []run.ServiceSpec{{
		Name: "postgres", Aliases: []string{"database"}, Image: image,
		Environment: map[string]string{"PATH": path, "POSTGRES_PASSWORD": password}, Secrets: map[string]string{"POSTGRES_PASSWORD": "PGPASSWORD"},
		Entrypoint: []string{"/bin/su", "tester", "-c"},
		Command: []string{`export PATH=` + path + `; cd /tmp && umask 077 && printf %s "$POSTGRES_PASSWORD" > password &&
			initdb -D data -A scram-sha-256 -U postgres --pwfile=password --no-sync && exec postgres -D data -k /tmp -h 127.0.0.1`},
		Health: &run.HealthCheck{Command: []string{"pg_isready", "-h", "127.0.0.1", "-q"}},
	}}
	s := b.finish(t, def)
	require.Equal(t, "42\npassword authentication failed\n", s.output, s.frames)
}
