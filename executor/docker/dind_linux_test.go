package docker_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// runtimeOfHost returns a container runtime: runc without a capability that virtual
// machines for tests may lack. A privileged container could not be started with it.
func runtimeOfHost(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runc")
	require.NoError(t, os.WriteFile(path, []byte(`#!/bin/sh
for word; do
	case $previous in
	--bundle) file=$word/config.json ;;
	--process) file=$word ;;
	esac
	previous=$word
done
if [ -n "$file" ]; then
	sed -i -e 's/"CAP_SYS_RESOURCE",//g' -e 's/,"CAP_SYS_RESOURCE"//g' "$file"
fi
exec runc "$@"
`), 0o700))
	return path
}

// TestDriver_docker_in_docker runs a Docker daemon as a service, which builds an image
// from a file that the task has written, and runs it.
func TestDriver_docker_in_docker(t *testing.T) {
	t.Parallel()
	cli := testenv.NewDaemon(t, "--add-runtime", "here="+runtimeOfHost(t), "--default-runtime", "here").Client()
	b := &bench{cli: cli, image: testenv.BusyboxImage(t, cli), id: "test"}
	b.driver = b.newDriver(t, docker.Options{Network: "none", AllowPrivileged: true})
	var paths []string
	for _, name := range []string{"/usr/bin/docker", "dockerd", "containerd", "containerd-shim-runc-v2", "runc", "iptables"} {
		path, err := exec.LookPath(name)
		if err != nil {
			testenv.Missing(t, "docker", "this host has no "+name, "install docker.io")
		}
		paths = append(paths, path)
	}
	image := b.imageOfHost(t, paths...)
	def := b.definition(t,
		`mkdir image && cp -r /bin image/ && printf 'FROM scratch\nCOPY bin /bin\nRUN echo built by $0 > /made\n' > image/Dockerfile`,
		`docker build -q --network none -t made image > id && docker run --rm --network none made cat /made && docker images -q | wc -l`,
	)
	def.WorkingDir, def.Steps[1].Image = run.SharedWorkingDir, image
	const path = "/usr/sbin:/usr/bin:/sbin:/bin"
	def.Environment = map[string]string{"PATH": path, "DOCKER_HOST": "tcp://docker:2375", "DOCKER_BUILDKIT": "0"}
	def.Services = []run.ServiceSpec{{
		Name: "docker", Image: image, Privileged: true, Environment: map[string]string{"PATH": path}, Entrypoint: []string{"/bin/sh", "-c"},
		Command: []string{`if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
				mkdir -p /sys/fs/cgroup/init && xargs -rn1 < /sys/fs/cgroup/cgroup.procs > /sys/fs/cgroup/init/cgroup.procs || true
				sed -e 's/ / +/g' -e 's/^/+/' < /sys/fs/cgroup/cgroup.controllers > /sys/fs/cgroup/cgroup.subtree_control || true
			fi
			mkdir -p /run /var/run && exec dockerd --host=tcp://127.0.0.1:2375 --host=unix:///run/docker.sock --tls=false --iptables=false --bridge=none --storage-driver=vfs`},
		Health: &run.HealthCheck{Command: []string{"docker", "--host", "tcp://127.0.0.1:2375", "info"}, Timeout: run.Duration(2 * time.Minute)},
	}}
	s := b.finish(t, def)
	require.Equal(t, "built by /bin/sh\n1\n", s.output, s.frames)
}
