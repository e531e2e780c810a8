package executortest

import (
	"crypto/rand"
	"regexp"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// containerCases test features of some drivers.
func containerCases() []testCase {
	images := func(f executor.Features) bool { return f.Images }
	users := func(f executor.Features) bool { return f.User }
	resources := func(f executor.Features) bool { return f.Resources }
	return []testCase{
		{name: "image_missing", needs: images, run: imageMissing},
		{name: "image_missing_from_its_registry", needs: images, run: imageUnreachable},
		{name: "no_image", needs: images, run: noImage},
		{name: "services", needs: func(f executor.Features) bool { return f.Services }, run: services},
		{name: "service_image_missing", needs: func(f executor.Features) bool { return f.Services }, run: serviceImageMissing},
		{name: "services/names_secrets_and_entrypoint", needs: func(f executor.Features) bool { return f.Services }, run: serviceSettings},
		{name: "services/health", needs: func(f executor.Features) bool { return f.Services }, run: serviceHealth},
		{name: "services/unhealthy", needs: func(f executor.Features) bool { return f.Services }, run: serviceUnhealthy},
		{name: "services/ended_before_healthy", needs: func(f executor.Features) bool { return f.Services }, run: serviceEndedEarly},
		{name: "services/ended_during_a_step", needs: func(f executor.Features) bool { return f.Services }, run: serviceEndedLate},
		{name: "services/logs", needs: func(f executor.Features) bool { return f.Services }, run: serviceLogs},
		{name: "services/privileged", needs: func(f executor.Features) bool { return f.Services && !f.Privileged }, run: servicePrivileged},
		{name: "services/own_network_refused", needs: func(f executor.Features) bool { return f.Images && !f.ServiceNetworks }, run: ownNetworkRefused},
		{name: "user_by_number", needs: users, run: userByNumber},
		{name: "user_by_name", needs: users, run: userByName},
		{name: "user_unknown", needs: users, run: userUnknown},
		{name: "shared_memory", needs: func(f executor.Features) bool { return f.Tmpfs }, run: sharedMemory},
		{name: "extra_hosts", needs: func(f executor.Features) bool { return f.ExtraHosts }, run: extraHosts},
		{name: "extra_hosts_refused", needs: func(f executor.Features) bool { return !f.ExtraHosts }, run: extraHostsRefused},
		{name: "tmpfs", needs: func(f executor.Features) bool { return f.Tmpfs }, run: tmpfs},
		{name: "memory", needs: resources, run: memory},
		{name: "pids", needs: func(f executor.Features) bool { return f.PIDs }, run: pids},
		{name: "bad_resources", needs: resources, run: badResources},
		{name: "privileged", needs: func(f executor.Features) bool { return f.Privileged && f.Images }, run: privileged},
		{name: "orphans_are_reaped", needs: images, run: orphans},
	}
}

func imageMissing(b *bench) {
	d := b.define("true")
	d.Image = "drover.invalid/nothing:1"
	err := b.refused(d)
	require.Contains(b, err.Error(), "drover.invalid/nothing:1")
}

func imageUnreachable(b *bench) {
	d := b.define("true")
	d.Image, d.PullPolicy = "127.0.0.1:1/nothing:1", run.PullIfNotPresent
	err := b.refused(d)
	require.Contains(b, err.Error(), "127.0.0.1:1/nothing:1")
}

func noImage(b *bench) {
	d := b.define("true")
	d.Image = ""
	require.Contains(b, b.refused(d).Error(), "image")
}

const serve = "mkdir -p /www && echo from $WHO > /www/index.html && exec httpd -f -p 127.0.0.1:$PORT -h /www"

func services(b *bench) {
	d := b.define("for port in 7771 7772; do for try in $(seq 100); do wget -q -O - http://localhost:$port/ && break; sleep 0.1; done; done")
	for port, who := range map[string]string{"7771": "one", "7772": "two"} {
		d.Services = append(d.Services, run.ServiceSpec{
			Name: who, Image: b.Image, Environment: map[string]string{"PORT": port, "WHO": who}, Command: []string{"/bin/sh", "-c", serve},
		})
	}
	s := b.run(d)
	require.Equal(b, "from one\nfrom two\n", s.output(run.StreamStdout), s.output(run.StreamStderr))
}

func serviceImageMissing(b *bench) {
	d := b.define("true")
	d.Services = []run.ServiceSpec{{Name: "db", Image: "drover.invalid/nothing:1"}}
	err := b.refused(d)
	require.Contains(b, err.Error(), "db")
	require.Contains(b, err.Error(), "drover.invalid/nothing:1")
}

func serviceSettings(b *bench) {
	password := rand.Text()
	d := b.define("for name in web other; do wget -q -O - http://$name:7774/; done")
	d.Services = []run.ServiceSpec{{
		Name: "web", Aliases: []string{"other"}, Image: b.Image, Entrypoint: []string{"/bin/sh", "-c"}, Command: []string{serve},
		Secrets: map[string]string{"WHO": "PASSWORD"}, Environment: map[string]string{"PORT": "7774", "WHO": password},
		Health: &run.HealthCheck{Command: []string{"wget", "-q", "-O", "-", "http://127.0.0.1:7774/"}},
	}}
	s := b.run(d)
	require.Equal(b, "from "+password+"\nfrom "+password+"\n", s.output(run.StreamStdout), s.result().Reason)
}

// serviceHealth runs a service that becomes healthy some time after it has started. It
// has a limit, and shares the working directory.
func serviceHealth(b *bench) {
	d := b.define("cat ready; cat limit; echo task > from-task; for try in $(seq 100); do [ -e answer ] && break; sleep 0.1; done; cat answer")
	d.WorkingDir = run.SharedWorkingDir
	d.Services = []run.ServiceSpec{{
		Name: "slow", Image: b.Image, ShareWorkingDir: true, Resources: run.Resources{Memory: "64Mi"},
		Command: []string{"/bin/sh", "-c", `cd /workspace; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null > limit
			sleep 2; echo ready > ready; touch /healthy; until [ -e from-task ]; do sleep 0.1; done; cat from-task > answer; sleep 300`},
		Health: &run.HealthCheck{Command: []string{"test", "-e", "/healthy"}},
	}}
	s := b.run(d)
	require.Equal(b, "ready\n67108864\ntask\n", s.output(""), s.result().Reason)
}

func serviceUnhealthy(b *bench) {
	d := b.define("true")
	d.Services = []run.ServiceSpec{{
		Name: "sick", Image: b.Image, Command: []string{"sleep", "300"},
		Health: &run.HealthCheck{Command: []string{"sh", "-c", "echo not yet; exit 1"}, Timeout: run.Duration(2 * time.Second)},
	}}
	require.Contains(b, b.refused(d).Error(), "service sick ("+b.Image+") was not healthy after 2s")
}

func serviceEndedEarly(b *bench) {
	d := b.define("true")
	d.Services = []run.ServiceSpec{{
		Name: "brief", Image: b.Image, Command: []string{"sh", "-c", "echo no license; exit 3"},
		Health: &run.HealthCheck{Command: []string{"false"}},
	}}
	err := b.refused(d).Error()
	require.Contains(b, err, "service brief")
	require.Contains(b, err, "no license")
}

// serviceEndedLate fails a step because of a service that has ended. Another process does
// not know the secrets that the service may have printed.
func serviceEndedLate(b *bench) {
	const (
		step  = "touch stop; until [ -e bye ]; do sleep 0.05; done; "
		lines = ": no space | for ***"
	)
	ended := "service db (" + b.Image + ") had ended: the container ended with exit code 7"
	for script, want := range map[string]struct{ reason, log string }{
		step + "exit 3": {"step 1 exited with code 3; " + ended + lines, "drover: " + ended + lines + "\n"},
		step:            {},
		"exit 3":        {reason: "step 1 exited with code 3"},
	} {
		d := b.define(script)
		d.WorkingDir, d.Secrets = run.SharedWorkingDir, []string{"a secret value"}
		d.Services = []run.ServiceSpec{{
			Name: "db", Image: b.Image, ShareWorkingDir: true, Health: &run.HealthCheck{Command: []string{"true"}},
			Command: []string{"sh", "-c", "cd /workspace; until [ -e stop ]; do sleep 0.05; done; echo no space; echo for a secret value; touch bye; exit 7"},
		}}
		h := b.start(d)
		s := b.follow(h)
		require.Equal(b, want.reason, s.result().Reason, script)
		require.Equal(b, want.log, s.output(run.StreamSystem), script)
		require.Equal(b, s, b.follow(h), "the same frames again")
		other, err := b.reopen().Attach(b.limit(), d.Key)
		require.NoError(b, err)
		again := b.follow(other)
		require.Len(b, again.frames, len(s.frames), "the same number of frames")
		require.Equal(b, strings.Replace(want.log, lines, "", 1), again.output(run.StreamSystem), script)
		b.remove(h)
	}
}

// serviceLogs reads what services printed before, during and after the steps.
func serviceLogs(b *bench) {
	const script = `cd /workspace; echo $0 begins; until [ -e go ]; do sleep 0.05; done; echo $0 fails >&2; touch $0-went; `
	d := b.define("touch go; until [ -e web-went ] && [ -e db-went ]; do sleep 0.05; done")
	d.WorkingDir = run.SharedWorkingDir
	d.Services = []run.ServiceSpec{{
		Name: "web", Image: b.Image, ShareWorkingDir: true, Health: &run.HealthCheck{Command: []string{"true"}},
		Command: []string{"sh", "-c", script + "exit 3", "web"},
	}, {
		Name: "db", Image: b.Image, ShareWorkingDir: true, Health: &run.HealthCheck{Command: []string{"true"}},
		Command: []string{"sh", "-c", script + "until ! [ -e go ]; do echo more; sleep 0.05; done", "db"},
	}, {
		Name: "quiet", Image: b.Image, Command: []string{"sleep", "300"},
	}}
	h := b.start(d)
	require.Equal(b, run.StatusSuccess, b.follow(h).result().Status)
	other, err := b.reopen().Attach(b.limit(), d.Key)
	require.NoError(b, err)
	// A container's streams reach its log one by one, some time after the container wrote them.
	dbLog := regexp.MustCompile("^db begins\n(more\n)*db fails\n(more\n)*$|^(more\n)+$")
	for _, handle := range []executor.Handle{h, other} {
		testenv.Await(b, func() (bool, string) {
			logs, err := handle.(executor.ServiceHandle).ServiceLogs(b.limit(), 1000)
			require.NoError(b, err)
			require.Len(b, logs, 3)
			require.Equal(b, []string{"db", "quiet", "web"}, []string{logs[0].Service, logs[1].Service, logs[2].Service})
			require.Empty(b, logs[1].Pieces)
			db, web := printed(b, logs[0]), printed(b, logs[2])
			return dbLog.MatchString(db) && web == "web begins\nweb fails\n", db + web
		})
	}
	cut, err := other.(executor.ServiceHandle).ServiceLogs(b.limit(), 15)
	require.NoError(b, err)
	require.Equal(b, "web fails\n", printed(b, cut[2]))
	require.True(b, cut[2].Cut)
	b.remove(h)
	_, err = other.(executor.ServiceHandle).ServiceLogs(b.limit(), 15)
	require.True(b, err == nil || run.CodeOf(err) == run.CodeNotFound, "%v", err)

	d = b.define("true")
	h = b.start(d)
	logs, err := h.(executor.ServiceHandle).ServiceLogs(b.limit(), 15)
	require.NoError(b, err)
	require.Empty(b, logs, "there are no services")
	b.remove(h)
}

// printed returns the output in a log.
func printed(b *bench, l executor.ServiceLog) string {
	b.Helper()
	var out strings.Builder
	for _, p := range l.Pieces {
		require.False(b, p.Time.IsZero())
		out.Write(p.Data)
	}
	return out.String()
}

func servicePrivileged(b *bench) {
	d := b.define("true")
	d.Services = []run.ServiceSpec{{Name: "dind", Image: b.Image, Privileged: true}}
	require.Contains(b, b.refused(d).Error(), "allow_privileged is off")
}

func ownNetworkRefused(b *bench) {
	d := b.define("true")
	d.ServiceNetwork = run.ServiceNetworkOwn
	d.Services = []run.ServiceSpec{{Name: "web", Image: b.Image}}
	require.Contains(b, b.refused(d).Error(), "network")
}

func userByNumber(b *bench) {
	d := b.define("id -u; id -g; touch mine; stat -c %u . mine; echo a=b >> $DROVER_OUTPUT; echo $HOME")
	d.User, d.WorkingDir = "1234:5678", "/somewhere/new"
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "1234\n5678\n1234\n1234\n/\n", s.output(""))
}

func userByName(b *bench) {
	d := b.define("id -u; id -G")
	d.User = b.User.Name
	s := b.run(d)
	require.Equal(b, b.User.ID+"\n"+b.User.Groups+"\n", s.output(""), s.result().Reason)
}

func userUnknown(b *bench) {
	d := b.define("true")
	d.User = "no-such-user"
	r := b.run(d).result()
	require.Equal(b, run.StatusFailed, r.Status)
	require.Equal(b, run.CauseStart, r.Cause)
	require.Contains(b, r.Reason, "no-such-user")
}

func tmpfs(b *bench) {
	d := b.define(
		"grep ' /scratch tmpfs ' /proc/mounts > /dev/null && echo mounted; touch /scratch/file && echo writable",
		"head -c 3145728 /dev/zero > /scratch/file",
	)
	d.Volumes = []run.Volume{{Path: "/scratch", Tmpfs: &run.Tmpfs{Size: "1Mi"}}}
	s := b.run(d)
	require.Equal(b, "mounted\nwritable\n", s.stepOutput(0))
	require.Equal(b, run.StatusFailed, s.result().Steps[1].Status, "the volume has a size limit")
}

// hog is a command that needs more memory than the tasks of the cases have.
const hog = "tail -c 1000000000 /dev/zero > /dev/null"

// memory runs out of memory in several ways. If the whole container is killed, its end
// has the cause.
func memory(b *bench) {
	const killed = "the kernel killed 1 process because memory ran out (limit 48Mi), in step 1"
	for name, c := range map[string]struct {
		script string
		cause  run.Cause // "" for success
		reason string    // all of it, or a part of that of a failure
	}{
		"in the step":                    {script: "tail -c 1000000000 /dev/zero | cat > /dev/null; exec " + hog, cause: run.CauseOOM, reason: "memory"},
		"in a child":                     {script: hog, cause: run.CauseOOM, reason: "memory"},
		"in a child that may fail":       {script: hog + " || echo survived", reason: killed},
		"in a background process":        {script: "(" + hog + " || touch /ended) & until [ -e /ended ]; do sleep 0.1; done", reason: killed},
		"in files":                       {script: "head -c 1000000000 /dev/zero > /dev/shm/file; echo unreachable", cause: run.CauseOOM, reason: "memory"},
		"in files, and the step goes on": {script: "for i in 1 2 3; do head -c 1000000000 /dev/zero > /dev/shm/$i || true; done; " + hog, cause: run.CauseOOM, reason: "memory"},
		"the step killed a child":        {script: "sh -c 'kill -9 $$' || true"},
	} {
		d := b.define(c.script)
		d.Resources = run.Resources{CPU: "500m", Memory: "48Mi"}
		h := b.start(d)
		s := read(b.limit(), h, 1, nil)
		b.remove(h)
		if s.err != nil { // the container was killed
			// The kernel may also choose the shim, if what it killed before is slow to end.
			require.True(b, c.cause == run.CauseOOM || b.KillsGroups && c.reason != "", "%s: %v", name, s.err)
			require.Equal(b, run.CauseOOM, executor.CauseOf(s.err), "%s: %v", name, s.err)
			require.Contains(b, s.err.Error(), "memory", name)
			continue
		}
		b.requireWhole(s, firstFrame)
		r := s.result()
		require.Equal(b, c.cause, r.Cause, "%s: %s", name, r.Reason)
		if c.cause == "" {
			require.Equal(b, run.StatusSuccess, r.Status, name)
			require.Equal(b, c.reason, r.Reason, name)
			require.Equal(b, c.reason != "", strings.Contains(s.output(run.StreamSystem), "because memory ran out (limit 48Mi)"), name)
		} else {
			require.Equal(b, run.StatusFailed, r.Status, name)
			require.Contains(b, r.Reason, c.reason, name)
		}
	}
}

func pids(b *bench) {
	d := b.define("for i in $(seq 200); do sleep 2 & done; wait; echo all")
	d.Resources = run.Resources{PIDs: 64}
	s := b.run(d)
	require.NotContains(b, s.output(run.StreamStdout), "all")
	require.Equal(b, run.StatusFailed, s.result().Status)
}

func badResources(b *bench) {
	for _, r := range []run.Resources{{CPU: "many"}, {Memory: "12 bananas"}} {
		d := b.define("true")
		d.Resources = r
		_ = b.refused(d)
	}
}

func privileged(b *bench) {
	d := b.define("mount -t tmpfs none /mnt 2>/dev/null || { mkdir -p /mnt && mount -t tmpfs none /mnt; }; echo mounted")
	d.Privileged = true
	s := b.run(d)
	require.Equal(b, "mounted\n", s.output(run.StreamStdout), s.output(run.StreamStderr))
}

// orphans leaves zombies if the first process of the container does not reap.
func orphans(b *bench) {
	s := b.run(b.define("for i in $(seq 20); do (sleep 0.1 &) ; done; sleep 1; cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' || true"))
	require.Equal(b, "0\n", s.output(run.StreamStdout))
}

// sharedMemory gives a task more shared memory than a container has.
func sharedMemory(b *bench) {
	d := b.define("dd if=/dev/zero of=/dev/shm/file bs=1M count=100 2>/dev/null; ls -l /dev/shm | grep -c 104857600")
	d.Volumes = []run.Volume{{Path: "/dev/shm", Tmpfs: &run.Tmpfs{Size: "200Mi"}}}
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.output(""))
	require.Equal(b, "1\n", s.output(""))
}

// extraHosts finds a service by a name that is given for its address, from the task, a
// helper container and the service itself.
func extraHosts(b *bench) {
	const fetch = "for try in $(seq 100); do wget -q -O - http://git.example.com:7776/ && break; sleep 0.1; done"
	d := b.inHelpers(b.define(fetch, fetch+"; cat own"), 1)
	d.ExtraHosts = map[string]string{"git.example.com": "127.0.0.1", "other": "127.0.0.9"}
	d.Services = []run.ServiceSpec{{
		Name: "web", Image: b.Image, ShareWorkingDir: true,
		Command: []string{"/bin/sh", "-c", "mkdir -p /www && echo found > /www/index.html && (grep -c other /etc/hosts > own; exec httpd -f -p 127.0.0.1:7776 -h /www)"},
	}}
	d.Services[0].Command[2] = "cd " + d.WorkingDir + " && " + d.Services[0].Command[2]
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.output(""))
	require.Equal(b, "found\nfound\n1\n", s.output(""))
}

func extraHostsRefused(b *bench) {
	d := b.define("true")
	d.ExtraHosts = map[string]string{"git.example.com": "127.0.0.1"}
	require.Contains(b, b.refused(d).Error(), "extra hosts")
}
