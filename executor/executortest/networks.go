package executortest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// networkCases test services with a network of their own.
func networkCases() []testCase {
	networks := func(f executor.Features) bool { return f.ServiceNetworks }
	return []testCase{
		{"service_network/names_and_ports", networks, networkNames},
		{"service_network/extra_hosts", networks, networkExtraHosts},
		{"service_network/stopped", networks, networkStopped},
		{"service_network/service_ended_early", networks, networkServiceEnded},
		{"service_network/killed_in_the_setup", networks, func(b *bench) { networkKilled(b, hangAtSetup) }},
		{"service_network/killed_before_the_launch", networks, func(b *bench) { networkKilled(b, hangAtLaunch) }},
		{"service_network/killed_and_removed", networks, networkKilledThenRemoved},
	}
}

// ownNetwork adds two services of one image that listen on the same port of all their
// addresses.
func (b *bench) ownNetwork(d run.Definition) run.Definition {
	b.Helper()
	if b.RequireNetworks != nil {
		b.RequireNetworks(b)
	}
	d.ServiceNetwork = run.ServiceNetworkOwn
	for _, name := range []string{"one", "two"} {
		d.Services = append(d.Services, run.ServiceSpec{
			Name: name, Aliases: []string{name + ".example.com"}, Image: b.Image,
			Command: []string{"/bin/sh", "-c", `mkdir -p /www && echo "$0 of $(hostname)" > /www/index.html && exec httpd -f -p 8000 -h /www`, name},
			Health:  &run.HealthCheck{Command: []string{"wget", "-q", "-O", "-", "http://127.0.0.1:8000/"}},
		})
	}
	return d
}

// networkNames reaches two services on one port by their names, from the task, from a
// helper container, and from one service to the other; and the task from a service.
func networkNames(b *bench) {
	const fetch = "for name in one two one.example.com two.example.com; do wget -q -O - http://$name:8000/ | cut -d ' ' -f 1; done"
	d := b.ownNetwork(b.inHelpers(b.define(fetch, fetch,
		`wget -q -O - http://127.0.0.1:8000/ 2>/dev/null || echo nothing on localhost
		mkdir -p /www && echo the task > /www/index.html && httpd -p 8001 -h /www && hostname > task
		for try in $(seq 600); do [ -e from-three ] && break; sleep 0.1; done; cat from-three`), 1))
	d.Services = append(d.Services, run.ServiceSpec{
		Name: "three", Image: b.Image, ShareWorkingDir: true,
		Command: []string{"/bin/sh", "-c", `cd "$0" && until [ -s task ] && wget -q -O answer "http://$(cat task):8001/"; do sleep 0.1; done
			wget -q -O - http://two.example.com:8000/ | cut -d " " -f 1 >> answer; mv answer from-three; exec sleep 300`, d.WorkingDir},
	})
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.output(""))
	const each = "one\ntwo\none\ntwo\n"
	require.Equal(b, each, s.stepOutput(0))
	require.Equal(b, each, s.stepOutput(1), "a helper container")
	require.Equal(b, "nothing on localhost\nthe task\ntwo\n", s.stepOutput(2))
}

// networkExtraHosts finds an extra host in the task, a helper container and a service.
func networkExtraHosts(b *bench) {
	const find = "grep -c '^10.1.2.3.*git.example.com' /etc/hosts"
	d := b.ownNetwork(b.inHelpers(b.define(find, find, "cat from-service"), 1))
	d.ExtraHosts = map[string]string{"git.example.com": "10.1.2.3"}
	d.Services = append(d.Services, run.ServiceSpec{
		Name: "three", Image: b.Image, ShareWorkingDir: true, Command: []string{"/bin/sh", "-c", find + ` > "$0"/from-service; exec sleep 300`, d.WorkingDir},
		Health: &run.HealthCheck{Command: []string{"test", "-s", d.WorkingDir + "/from-service"}},
	})
	s := b.run(d)
	require.Equal(b, "1\n1\n1\n", s.output(run.StreamStdout), s.result().Reason)
}

func networkStopped(b *bench) {
	h := b.start(b.ownNetwork(b.define("echo running; sleep 300")))
	b.awaitOutput(h, "running\n")
	require.NoError(b, h.Stop(b.limit(), 100*time.Millisecond))
	require.Equal(b, run.StatusStopped, b.follow(h).result().Status)
	b.remove(h)
}

func networkServiceEnded(b *bench) {
	d := b.ownNetwork(b.define("true"))
	d.Services[1].Command, d.Services[1].Health = []string{"sh", "-c", "echo no license; exit 3"}, &run.HealthCheck{Command: []string{"false"}}
	err := b.refused(d).Error()
	require.Contains(b, err, "service two")
	require.Contains(b, err, "no license")
}

// networkKilled kills an executor that starts a task. What it has created is found and
// removed, and the task can be started again.
func networkKilled(b *bench, where string) {
	d := b.ownNetwork(b.define("wget -q -O - http://two:8000/ | cut -d ' ' -f 1"))
	b.killChild(childTask{Definition: d, HangAt: where}, saysReached)
	h := b.start(d)
	s := b.follow(h)
	require.Equal(b, "two\n", s.output(run.StreamStdout), s.result().Reason)
	b.remove(h)
}

func networkKilledThenRemoved(b *bench) {
	d := b.ownNetwork(b.define("echo running; sleep 300"))
	b.killChild(childTask{Definition: d}, `output "running`)
	next := b.reopen()
	keys, err := next.List(b.limit())
	require.NoError(b, err)
	require.Contains(b, keys, d.Key)
	h, err := next.Attach(b.limit(), d.Key)
	require.NoError(b, err)
	b.awaitOutput(h, "running\n")
	b.remove(h)
}
