// Command missing lists, at the end of `make test`, the suites that were skipped
// because a service is missing or that other targets run, and how to enable them.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/internal/testenv"
)

func main() {
	fmt.Println("\nSkipped on this machine:")
	report := func(suite, remedy string) {
		fmt.Printf("  %s\n    to enable it: %s\n", suite, remedy)
	}
	if !dockerAnswers() {
		report("the suites of the docker driver and of tasks in containers (no Docker daemon answers)",
			"apt-get install docker.io busybox-static, start the daemon (.ci/dockerd does, as root), and set DOCKER_HOST if its socket is elsewhere")
	} else if found, _ := filepath.Glob("/bin/busybox"); len(found) == 0 {
		report("the suites of the docker driver (there is no static busybox for the test image)", "apt-get install busybox-static")
	}
	servers, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if os.Getenv("DROVER_TEST_POSTGRES") == "" && len(servers) == 0 {
		report("the PostgreSQL suites (no server programs, and DROVER_TEST_POSTGRES is not set)",
			"apt-get install postgresql (it need not run), or DROVER_TEST_POSTGRES=postgres://...")
	}
	if exec.CommandContext(context.Background(), "/usr/bin/python3", "-c", "import grpc, google.protobuf").Run() != nil {
		report("the test of the fleeting plugin in Python", "apt-get install python3-grpcio python3-protobuf")
	}
	if os.Geteuid() != 0 {
		report("the tests of lost hosts (they cut networks and fill disks, which needs root)", "run make test as root, with iproute2, iptables and util-linux installed")
	} else if _, err := exec.LookPath("iptables"); err != nil {
		report("the tests of network partitions (there is no iptables)", "apt-get install iproute2 iptables")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil || os.Geteuid() != 0 {
		report("the tests of a loss of power (they mount file systems, which needs root)", "run make test as root, with e2fsprogs and mount installed, where there are loop devices")
	}
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		report("the tests of instances that are reached over SSH (there is no SSH server)", "apt-get install openssh-server (it need not run)")
	}
	if os.Getenv(testenv.KubeconfigVariable) == "" {
		report("the Kubernetes suites (they need a cluster)", "make test-k8s, as root; it compiles Kubernetes the first time. With KUBECONFIG=... it uses an existing cluster")
	}
	report("the suites of the web UI (they need Node.js and a browser, which make test does not)",
		"apt-get install nodejs npm chromium (Node.js 20.19 or later), and run make web-test")
}

func dockerAnswers() bool {
	socket := "/var/run/docker.sock"
	if os.Getenv("DOCKER_HOST") != "" {
		return true // the suites themselves check that daemon
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}
