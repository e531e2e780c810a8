package executortest

import (
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// hostCases test paths and devices of the host.
func hostCases() []testCase {
	paths := func(f executor.Features) bool { return f.HostPaths }
	devices := func(f executor.Features) bool { return f.Devices }
	return []testCase{
		{"host_paths/are_mounted", paths, hostPathsMounted},
		{"host_paths/files", paths, hostPathsFiles},
		{"host_paths/read_only_in_helpers", func(f executor.Features) bool { return f.HostPaths && f.Helpers }, hostPathsReadOnly},
		{"host_paths/nested", paths, hostPathsNested},
		{"host_paths/missing", paths, hostPathsMissing},
		{"host_paths/links", paths, hostPathsLinks},
		{"host_paths/vanish", paths, hostPathVanishes},
		{"devices/are_there", devices, devicesThere},
		{"devices/in_helpers", func(f executor.Features) bool { return f.Devices && f.Helpers }, devicesInHelpers},
		{"devices/missing", devices, devicesMissing},
	}
}

// onHost is where tasks find the path of the host.
const onHost = "/mnt/of-host"

// hostDir returns a new directory of the host, without links in its path.
func hostDir(b *bench) string {
	b.Helper()
	dir, err := filepath.EvalSymlinks(b.TempDir())
	require.NoError(b, err)
	require.NoError(b, os.Chmod(dir, 0o755)) // the umask may be narrower
	return dir
}

// mounting returns a definition of a task with a path of the host.
func mounting(b *bench, hostPath string, scripts ...string) run.Definition {
	b.Helper()
	d := b.define(scripts...)
	d.Volumes = []run.Volume{{Path: onHost, HostPath: hostPath}}
	return d
}

// hostPathsMounted exchanges files with the host, whose directory keeps its permissions.
func hostPathsMounted(b *bench) {
	dir := hostDir(b)
	const private = 0o750
	require.NoError(b, os.Chmod(dir, private))
	require.NoError(b, os.WriteFile(filepath.Join(dir, "in"), []byte("of the host\n"), 0o600))
	require.Equal(b, "of the host\n", b.run(mounting(b, dir, "cat "+onHost+"/in; echo of the task > "+onHost+"/out")).output(""))
	content, err := os.ReadFile(filepath.Join(dir, "out"))
	require.NoError(b, err)
	require.Equal(b, "of the task\n", string(content))
	info, err := os.Stat(dir)
	require.NoError(b, err)
	require.Equal(b, os.FileMode(private), info.Mode().Perm())
}

func hostPathsFiles(b *bench) {
	file := filepath.Join(hostDir(b), "file")
	require.NoError(b, os.WriteFile(file, []byte("of the host\n"), 0o600))
	require.Equal(b, "of the host\n", b.run(mounting(b, file, "cat "+onHost)).output(""))
}

func hostPathsReadOnly(b *bench) {
	dir := hostDir(b)
	const script = "touch " + onHost + "/file 2> /dev/null || echo refused"
	d := mounting(b, dir, script, script)
	d.WorkingDir, d.Steps[1].Image, d.Volumes[0].ReadOnly = run.SharedWorkingDir, b.Image, true
	require.Equal(b, "refused\nrefused\n", b.run(d).output(""))
	d = mounting(b, dir, "echo of the task > "+onHost+"/file", "cat "+onHost+"/file; echo of the helper > "+onHost+"/file")
	d.WorkingDir, d.Steps[1].Image = run.SharedWorkingDir, b.Image
	require.Equal(b, "of the task\n", b.run(d).output(""))
	content, err := os.ReadFile(filepath.Join(dir, "file"))
	require.NoError(b, err)
	require.Equal(b, "of the helper\n", string(content))
}

// hostPathsNested leaves a link at a path of the host, by which a mount below it would be in
// another place.
func hostPathsNested(b *bench) {
	dir := hostDir(b)
	require.NoError(b, os.Symlink("/tmp", filepath.Join(dir, "below")))
	for name, change := range map[string]func(d *run.Definition){
		"persistent": func(d *run.Definition) {
			d.Volumes, d.VolumeScope = append(d.Volumes, run.Volume{Path: onHost + "/below", Name: "other"}), "linux /acme/shop"
		},
		"tmpfs": func(d *run.Definition) {
			d.Volumes = append(d.Volumes, run.Volume{Path: onHost + "/below", Tmpfs: &run.Tmpfs{}})
		},
		"path of the host": func(d *run.Definition) {
			d.Volumes = append(d.Volumes, run.Volume{Path: onHost + "/below", HostPath: hostDir(b)})
		},
		"working directory": func(d *run.Definition) { d.WorkingDir, d.Steps[0].Image = onHost+"/below", b.Image },
		"above":             func(d *run.Definition) { d.Volumes = append(d.Volumes, run.Volume{Path: "/mnt", Tmpfs: &run.Tmpfs{}}) },
	} {
		d := mounting(b, dir, "echo ran")
		change(&d)
		require.ErrorContains(b, b.refused(d), "is below the other", name)
	}
	for want, change := range map[string]func(d *run.Definition){
		"is the path of two volumes":          func(d *run.Definition) { d.WorkingDir, d.Steps[0].Image = onHost, b.Image },
		"/etc/hosts belongs to the container": func(d *run.Definition) { d.Volumes[0].Path = "/etc/hosts" },
		"/.drover\" can not be the path":      func(d *run.Definition) { d.Volumes[0].Path = "/.drover" },
	} {
		d := mounting(b, dir, "echo ran")
		change(&d)
		require.ErrorContains(b, b.refused(d), want)
	}
}

// hostPathsMissing is refused, and nothing is created.
func hostPathsMissing(b *bench) {
	dir := filepath.Join(hostDir(b), "missing")
	require.ErrorContains(b, b.refused(mounting(b, dir, "true")), dir+": it does not exist on the host")
	require.NoDirExists(b, dir)
}

// hostPathsLinks refuses a link at the end of a path and within it, and names its target.
func hostPathsLinks(b *bench) {
	dir := hostDir(b)
	target := filepath.Join(dir, "target")
	require.NoError(b, os.MkdirAll(filepath.Join(target, "inner"), 0o700))
	link := filepath.Join(dir, "link")
	require.NoError(b, os.Symlink("target", link))
	require.ErrorContains(b, b.refused(mounting(b, link, "true")), "symbolic link to "+target)
	require.ErrorContains(b, b.refused(mounting(b, link+"/inner", "true")), "symbolic link to "+target+"/inner")
	require.ErrorContains(b, b.refused(mounting(b, link+"/missing", "true")), "does not exist")
	require.NoError(b, os.Remove(link))
	require.NoError(b, os.Symlink("link", link))
	require.ErrorContains(b, b.refused(mounting(b, link, "true")), link)
	for _, invalid := range []string{dir + "/target/..", dir + "/target/", "target", "/"} {
		require.ErrorContains(b, b.refused(mounting(b, invalid, "true")), "host")
	}
}

// hostPathVanishes removes the path of the host while the task runs. Other processes of the
// executor find the task, stop it and read what it wrote.
func hostPathVanishes(b *bench) {
	dir := filepath.Join(hostDir(b), "dir")
	require.NoError(b, os.Mkdir(dir, 0o700))
	d := mounting(b, dir, "exec 2> /dev/null; echo begun; trap 'echo stopped; exit 1' TERM; while :; do sleep 0.05; done")
	b.awaitOutput(b.start(d), "begun\n")
	require.NoError(b, os.Remove(dir))

	var l launches
	for _, resume := range []bool{true, false} {
		task := b.task(d)
		task.Launch, task.Resume = l.launch, resume
		_, err := b.reopen().Start(b.limit(), task)
		require.NoError(b, err)
	}
	require.Zero(b, l.n.Load(), "the steps have begun")
	h, err := b.reopen().Attach(b.limit(), d.Key)
	require.NoError(b, err)
	require.NoError(b, h.Stop(b.limit(), grace))
	require.Equal(b, "begun\nstopped\n", b.follow(h).output(run.StreamStdout))
	h, err = b.reopen().Attach(b.limit(), d.Key)
	require.NoError(b, err)
	s := b.follow(h)
	require.Equal(b, "begun\nstopped\n", s.output(run.StreamStdout))
	require.Equal(b, run.StatusStopped, s.result().Status)
	b.remove(h)
	require.NoDirExists(b, dir)
	require.ErrorContains(b, b.refused(mounting(b, dir, "true")), "does not exist")
}

// device is one that hosts have, and containers only if they are given it.
const device = "/dev/kmsg"

const lookForDevice = `if [ -c ` + device + ` ]; then echo there; else echo not there; fi`

func devicesThere(b *bench) {
	require.Equal(b, "not there\n", b.run(b.define(lookForDevice)).output(""))
	d := b.define(lookForDevice)
	d.Devices = []string{device}
	require.Equal(b, "there\n", b.run(d).output(""))
}

func devicesInHelpers(b *bench) {
	d := b.define(lookForDevice, lookForDevice)
	d.WorkingDir, d.Steps[1].Image, d.Devices = run.SharedWorkingDir, b.Image, []string{device}
	require.Equal(b, "there\nthere\n", b.run(d).output(""))
}

func devicesMissing(b *bench) {
	for _, missing := range []string{"/dev/drover-has-no-such-device", "/dev/../etc/passwd", "/etc/passwd"} {
		d := b.define("true")
		d.Devices = []string{missing}
		require.ErrorContains(b, b.refused(d), missing)
	}
}
