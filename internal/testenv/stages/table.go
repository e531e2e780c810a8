package main

const (
	// unit is the stage of all tests that no other stage runs: those that need no service.
	unit = "unit"
	// smoke is a selection of the other stages: one real thing of each kind.
	smoke = "smoke"
	// root is the directory of the main module.
	root = "."
)

// stage is a part of the checks that runs Go tests.
type stage struct {
	name string
	// needs is what a machine must have besides Go, git and make.
	needs string
	// minutes is how long a package may take.
	minutes int
	// packages are patterns of packages whose tests all belong to the stage, by the
	// directory of their module.
	packages map[string][]string
	// serves are the services whose tests in other packages belong to the stage too.
	serves []string
	// services are all that the tests of the stage use, by the names of package testenv.
	services []string
}

// stages returns all stages that Go tests belong to.
func stages() []stage {
	in := func(packages ...string) map[string][]string { return map[string][]string{root: packages} }
	services := []string{"temporal", "s3", "sshd", "python", "loop", "namespaces", "systemd"}
	return []stage{
		{name: unit, minutes: 15},
		{name: "docker", needs: "a Docker daemon (as root, .ci/dockerd starts one) and static programs for its images (apt-get install docker.io busybox-static postgresql)", minutes: 20, services: []string{"docker", "postgres"}, serves: []string{"docker"}, packages: map[string][]string{
			root: {"./executor/docker/..."}, "plugins": {"./docker/..."},
		}},
		{name: "postgres", needs: "PostgreSQL (apt-get install postgresql; it need not run), or DROVER_TEST_POSTGRES=postgres://...", minutes: 20, services: []string{"postgres"}, packages: in("./records/postgres/...", "./test/chaos")},
		{name: "services", needs: "root; apt-get install openssh-server python3-grpcio python3-protobuf systemd e2fsprogs mount util-linux; it builds a Temporal and an S3 server", minutes: 15, services: services, serves: services},
		{name: "kill", needs: "root (apt-get install e2fsprogs mount util-linux)", minutes: 40, services: []string{"loop", "namespaces"}, packages: in("./test/kill")},
		{name: "loss", needs: "root and a Docker daemon (apt-get install docker.io busybox-static iproute2 iptables util-linux)", minutes: 20, services: []string{"docker", "namespaces"}, packages: in("./test/loss")},
		{name: "archives", needs: "a Docker daemon (apt-get install docker.io busybox-static)", minutes: 20, services: []string{"docker", "s3"}, packages: in("./test/archives")},
		{name: "fleet", needs: "a Docker daemon and an SSH server that need not run (apt-get install docker.io busybox-static openssh-server)", minutes: 30, services: []string{"docker", "sshd"}, packages: in("./test/fleet")},
		{name: "clients", needs: "a Docker daemon (apt-get install docker.io busybox-static)", minutes: 30, services: []string{"docker"}, packages: in("./test/clients")},
		{name: "kubernetes", needs: "root; it compiles a cluster (apt-get install etcd-server containerd runc conntrack containernetworking-plugins), or KUBECONFIG=...", minutes: 20, services: []string{"kubernetes", "docker"}, packages: map[string][]string{
			root: {"./executor/kubernetes/...", "./test/set"}, "test/cluster": {"./..."}, "test/chart": {"./..."},
		}},
	}
}

func smokeStage() stage { return stage{name: smoke, services: []string{"docker", "postgres"}} }

// smokeCalls are the marked cases. A case that does not exist fails the stage.
func smokeCalls() []call {
	return []call{
		{module: root, minutes: 5, run: "^TestDriver_conformance$/^(start_and_follow|services|stop|killed_in_mid_task|step_retry|archive_round_trip|secrets_are_masked|secret_files|exec_in_the_step)$", packages: []string{"./executor/docker"}},
		{module: root, minutes: 10, run: "^TestStore$", packages: []string{"./records/postgres"}},
		{module: root, minutes: 5, run: "^TestKill_dev$/^round_0$", packages: []string{"./test/kill"}},
		{module: root, minutes: 5, run: "^TestFleet_reasons$", packages: []string{"./test/fleet"}},
	}
}

// modules returns the directories of all modules with tests.
func modules() []string {
	return []string{root, "plugins", "examples/fleets/plugin-go", "test/cluster", "test/chart"}
}
