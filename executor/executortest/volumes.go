package executortest

import (
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// volumeCases test persistent volumes.
func volumeCases() []testCase {
	has := func(f executor.Features) bool { return f.Volumes }
	return []testCase{
		{"volumes/stay", has, volumesStay},
		{"volumes/scopes", has, volumesOfScopes},
		{"volumes/modes", has, volumesModes},
		{"volumes/modes_of_working_dir", func(f executor.Features) bool { return f.Volumes && f.Helpers }, volumesModesOfWorkingDir},
		{"volumes/nested", has, volumesNested},
		{"volumes/working_dir", func(f executor.Features) bool { return f.Volumes && f.Helpers && f.Services }, volumesAsWorkingDir},
		{"volumes/read_only", func(f executor.Features) bool { return f.Volumes && f.Helpers }, volumesReadOnly},
		{"volumes/of_other_users", func(f executor.Features) bool { return f.Volumes && f.User }, volumesOfUsers},
		{"volumes/in_helpers", func(f executor.Features) bool { return f.Volumes && f.Helpers }, volumesInHelpers},
		{"volumes/at_once", has, volumesAtOnce},
		{"volumes/stay_when_the_executor_is_killed", has, volumesResumed},
		{"volumes/stay_beside_services_and_helpers", func(f executor.Features) bool { return f.Volumes && f.Helpers && f.Services }, volumesBesideOthers},
	}
}

const cache = "/var/cache/of-task"

// caching returns a definition of a task with a persistent volume.
func (b *bench) caching(scripts ...string) run.Definition {
	b.Helper()
	d := b.define(scripts...)
	d.Volumes, d.VolumeScope = []run.Volume{{Path: cache, Name: "cache"}}, run.PersistentVolumeScope("pool", "/acme/shop")
	return d
}

// volumesStay uses two volumes in a task, and exchanged in the next one.
func volumesStay(b *bench) {
	d := b.caching("echo of cache > "+cache+"/file", "echo of other > /other/file")
	d.Volumes = append(d.Volumes, run.Volume{Path: "/other", Name: "other"})
	require.Equal(b, run.StatusSuccess, b.run(d).result().Status)
	d = b.caching("cat /other/file " + cache + "/file")
	d.Volumes = []run.Volume{{Path: "/other", Name: "cache"}, {Path: cache, Name: "other"}}
	require.Equal(b, "of cache\nof other\n", b.run(d).output(""))
}

// volumesOfScopes runs tasks of two scopes.
func volumesOfScopes(b *bench) {
	const script = "ls " + cache + "; echo x > " + cache + "/${DROVER_TASK}"
	for _, tt := range []struct{ scope, task, want string }{
		{"p /acme/shop", "one", ""}, {"p /acme/shop", "two", "one\n"}, {"p /acme/bank", "three", ""}, {"q /acme/shop", "four", ""}, {"p /acme/shop", "five", "one\ntwo\n"},
	} {
		d := b.caching(script)
		d.VolumeScope, d.Task = tt.scope, tt.task
		d.Environment = map[string]string{"DROVER_TASK": tt.task}
		s := b.run(d)
		require.Equal(b, tt.want, s.output(run.StreamStdout), tt.task)
		require.Equal(b, run.StatusSuccess, s.result().Status, "%s: %s", tt.task, s.output(""))
	}
}

// volumesModes leaves the permissions of the volume as a task has set them.
func volumesModes(b *bench) {
	for _, tt := range []struct{ name, mode, left string }{
		{"cache", "2700", "drwx--S---\n"},
		{"other", "755", "drwxr-xr-x\n"}, // as a new one has it, but this one is not empty
	} {
		for _, want := range []string{"drwxrwxrwx\n", tt.left} {
			d := b.caching("stat -c %A " + cache + " && touch " + cache + "/file && chmod " + tt.mode + " " + cache)
			d.Volumes[0].Name = tt.name
			s := b.run(d)
			require.Equal(b, want, s.output(run.StreamStdout), s.output(""))
		}
	}
}

// volumesModesOfWorkingDir is volumesModes for a volume that is the working directory which the
// containers of a task share.
func volumesModesOfWorkingDir(b *bench) {
	for _, want := range []string{"drwxrwxrwx\n", "drwx--S---\n"} {
		d := b.caching("stat -c %A "+cache+" && chmod 2700 "+cache, "true")
		d.WorkingDir, d.Steps[1].Image = cache+"/", b.Image
		s := b.run(d)
		require.Equal(b, want, s.output(run.StreamStdout), s.output(""))
	}
}

// volumesNested leaves a link in a volume, by which a mount below the volume would be in
// another place.
func volumesNested(b *bench) {
	require.Equal(b, run.StatusSuccess, b.run(b.caching("ln -s /tmp "+cache+"/below")).result().Status)
	below := cache + "/below"
	for name, change := range map[string]func(d *run.Definition){
		"persistent": func(d *run.Definition) { d.Volumes = append(d.Volumes, run.Volume{Path: below, Name: "other"}) },
		"tmpfs":      func(d *run.Definition) { d.Volumes = append(d.Volumes, run.Volume{Path: below, Tmpfs: &run.Tmpfs{}}) },
		"above":      func(d *run.Definition) { d.Volumes = append(d.Volumes, run.Volume{Path: "/var", Tmpfs: &run.Tmpfs{}}) },
	} {
		d := b.caching("echo ran")
		change(&d)
		require.ErrorContains(b, b.refused(d), "below", name)
	}
}

// volumesAsWorkingDir has a volume as the working directory that the containers of a task
// share. The second task sees what those of the first one have written.
func volumesAsWorkingDir(b *bench) {
	for _, want := range []string{"of the service\n", "of the service\nof the step\nof the service\n"} {
		d := b.caching("until grep -q service "+cache+"/file; do sleep 0.05; done", "cat "+cache+"/file; echo of the step >> file")
		d.WorkingDir, d.Steps[1].Image, d.User = cache, b.Image, "1234:1234"
		d.Services = []run.ServiceSpec{{Name: "writer", Image: b.Image, Command: []string{"sh", "-c", "umask 0; echo of the service >> " + cache + "/file; sleep 1000"}, ShareWorkingDir: true}}
		s := b.run(d)
		require.Equal(b, run.StatusSuccess, s.result().Status, s.output(""))
		require.Equal(b, want, s.output(run.StreamStdout))
	}
}

func volumesReadOnly(b *bench) {
	require.Equal(b, run.StatusSuccess, b.run(b.caching("echo kept > "+cache+"/file")).result().Status)
	const script = "cat " + cache + "/file; touch " + cache + "/other 2> /dev/null || echo refused"
	d := b.caching(script, script)
	d.Volumes[0].ReadOnly, d.WorkingDir = true, run.SharedWorkingDir
	d.Steps[1].Image = b.Image
	require.Equal(b, "kept\nrefused\nkept\nrefused\n", b.run(d).output(run.StreamStdout))
}

// volumesOfUsers writes as one user to a new volume, and as another one later.
func volumesOfUsers(b *bench) {
	for _, user := range []string{"1234:1234", "4321:4321"} {
		d := b.caching("echo x > " + cache + "/$(id -u); ls " + cache)
		d.User = user
		s := b.run(d)
		require.Equal(b, run.StatusSuccess, s.result().Status, s.output(""))
		require.Contains(b, s.output(run.StreamStdout), user[:4])
	}
}

func volumesInHelpers(b *bench) {
	d := b.caching("echo of the task > "+cache+"/file", "cat "+cache+"/file; echo of the helper > "+cache+"/file", "cat "+cache+"/file")
	d.WorkingDir, d.Steps[1].Image = run.SharedWorkingDir, b.Image
	require.Equal(b, "of the task\nof the helper\n", b.run(d).output(run.StreamStdout))
	require.Equal(b, "of the helper\n", b.run(b.caching("cat "+cache+"/file")).output(run.StreamStdout), "it stays when the containers are removed")
}

// volumesAtOnce runs two tasks that exchange files in a volume.
func volumesAtOnce(b *bench) {
	const exchange = "touch " + cache + "/$0; until [ -e " + cache + "/$1 ]; do sleep 0.05; done; echo met"
	d, other := b.caching("sh -c '"+exchange+"' one two"), b.caching("sh -c '"+exchange+"' two one")
	first, second := b.start(d), b.start(other)
	require.Equal(b, "met\n", b.follow(first).output(run.StreamStdout))
	require.Equal(b, "met\n", b.follow(second).output(run.StreamStdout))
	b.remove(first)
	b.remove(second)
}

// volumesResumed starts the steps of a task whose executor was killed at the launch: they find
// what earlier tasks left in the volume, and later ones what they left.
func volumesResumed(b *bench) {
	require.Equal(b, run.StatusSuccess, b.run(b.caching("echo before > "+cache+"/file")).result().Status)
	d := b.caching("cat " + cache + "/file; echo resumed >> " + cache + "/file")
	b.killChild(childTask{Definition: d, HangAt: hangAtLaunch}, saysReached)
	task := b.task(d)
	task.Resume = true
	h, err := b.driver.Start(b.limit(), task)
	require.NoError(b, err)
	require.Equal(b, "before\n", b.follow(h).output(run.StreamStdout))
	b.remove(h)

	d = b.caching("echo followed >> "+cache+"/file; echo begun; sleep 1", "cat "+cache+"/file")
	b.killChild(childTask{Definition: d}, `output "begun`)
	h, err = b.driver.Attach(b.limit(), d.Key)
	require.NoError(b, err)
	require.Equal(b, "begun\nbefore\nresumed\nfollowed\n", b.follow(h).output(run.StreamStdout))
	b.remove(h)
	require.Equal(b, "before\nresumed\nfollowed\n", b.run(b.caching("cat "+cache+"/file")).output(run.StreamStdout))
}

// volumesBesideOthers removes a running task with a service and a helper container. Its volume
// stays, and nothing else does.
func volumesBesideOthers(b *bench) {
	d := b.inHelpers(b.caching("echo of the task > "+cache+"/file", "echo of the helper >> "+cache+"/file; echo begun; sleep 300"), 1)
	d.Services = []run.ServiceSpec{{Name: "idle", Image: b.Image, Command: []string{"sleep", "1000"}, ShareWorkingDir: true}}
	h := b.start(d)
	b.awaitOutput(h, "begun")
	b.remove(h)
	b.requireNothingLeft()
	require.Equal(b, "of the task\nof the helper\n", b.run(b.caching("cat "+cache+"/file")).output(run.StreamStdout))
}
