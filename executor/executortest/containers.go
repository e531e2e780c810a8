package executortest

import (
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
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
		{name: "user_by_number", needs: users, run: userByNumber},
		{name: "user_by_name", needs: users, run: userByName},
		{name: "user_unknown", needs: users, run: userUnknown},
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

func memory(b *bench) {
	d := b.define("echo begun", "tail -c 1000000000 /dev/zero | cat > /dev/null; exec tail -c 1000000000 /dev/zero > /dev/null")
	d.Resources = run.Resources{CPU: "500m", Memory: "48Mi"}
	s := b.run(d)
	r := s.result()
	require.Equal(b, run.StatusFailed, r.Status)
	require.Equal(b, run.CauseOOM, r.Cause, r.Reason)
	require.Contains(b, r.Reason, "memory")
	require.Equal(b, "begun\n", s.stepOutput(0))
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
