package executortest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// environmentCases test the environment of steps.
func environmentCases() []testCase {
	return []testCase{
		{name: "environment_precedence", run: precedence},
		{name: "environment_is_clean", run: cleanEnvironment},
		{name: "working_dir", run: workingDir},
		{name: "stdin_is_empty", run: stdinEmpty},
		{name: "unsupported_is_refused", run: unsupported},
		{name: "privileged_refused", needs: func(f executor.Features) bool { return !f.Privileged }, run: privilegedRefused},
		{name: "copy", needs: func(f executor.Features) bool { return f.Copy }, run: copyRoundTrip},
		{name: "copy_stays_inside", needs: func(f executor.Features) bool { return f.Copy && !f.Images }, run: copyInside},
	}
}

func precedence(b *bench) {
	d := b.define(`echo "$A $B $DROVER_TASK_NAME"`, `echo "$A $B"`, "env | grep DROVER_ | sort")
	d.Environment = map[string]string{"A": "task", "B": "task", "DROVER_TASK_NAME": "mine", "ODD": "a\nb=c 'd\""}
	d.Steps[0].Environment = map[string]string{"B": "step", "DROVER_TASK_NAME": "mine"}
	s := b.run(d)
	require.Equal(b, "task step case\n", s.stepOutput(0), "Drover's own variables win")
	require.Equal(b, "task task\n", s.stepOutput(1))
	for _, want := range []string{
		"DROVER_RUN_ID=" + string(d.Key.Run), "DROVER_RUN_COUNTER=7", "DROVER_RUN_GROUP=/suite/drivers",
		"DROVER_TASK_NAME=case", "DROVER_TASK_ATTEMPT=1", "DROVER_OUTPUT=/",
	} {
		require.Contains(b, s.stepOutput(2), want)
	}
}

func cleanEnvironment(b *bench) {
	s := b.run(b.define(`echo "path=$PATH home=$HOME"; env | grep -c ` + childVariable + ` || true; command -v sh`))
	require.NotContains(b, s.output(""), "path= ")
	require.NotContains(b, s.output(""), "home=\n")
	require.Contains(b, s.output(""), "\n0\n")
}

func workingDir(b *bench) {
	d := b.define("pwd; touch it", "pwd", "pwd")
	d.WorkingDir = "deep/er"
	d.Steps[1].WorkingDir = "inner"
	d.Steps[2].WorkingDir = "/tmp"
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.True(b, strings.HasSuffix(s.stepOutput(0), "/deep/er\n"), s.stepOutput(0))
	require.Equal(b, strings.TrimSpace(s.stepOutput(0))+"/inner\n", s.stepOutput(1))
	require.Equal(b, "/tmp\n", s.stepOutput(2))
}

func stdinEmpty(b *bench) {
	require.Equal(b, "0\n", b.run(b.define("cat | wc -c | tr -d ' '")).output(""))
}

// unsupported uses features that the driver does not declare.
func unsupported(b *bench) {
	f := b.driver.Features()
	uses := map[string]struct {
		has bool
		use func(*run.Definition)
	}{
		"image":        {f.Images, func(d *run.Definition) { d.Image = "busybox" }},
		"services":     {f.Services, func(d *run.Definition) { d.Services = []run.ServiceSpec{{Name: "db", Image: "busybox"}} }},
		"user":         {f.User, func(d *run.Definition) { d.User = "1000" }},
		"tmpfs":        {f.Tmpfs, func(d *run.Definition) { d.Volumes = []run.Volume{{Path: "/scratch", Tmpfs: &run.Tmpfs{}}} }},
		"volumes":      {f.Volumes, func(d *run.Definition) { d.Volumes = []run.Volume{{Path: "/cache", Name: "cache"}} }},
		"host paths":   {f.HostPaths, func(d *run.Definition) { d.Volumes = []run.Volume{{Path: "/mirror", HostPath: "/usr"}} }},
		"devices":      {f.Devices, func(d *run.Definition) { d.Devices = []string{device} }},
		"resources":    {f.Resources, func(d *run.Definition) { d.Resources.Memory = "64Mi" }},
		"secret files": {f.SecretFiles, func(d *run.Definition) { d.SecretFiles = map[string]string{"TOKEN": "x"} }},
		"pids":         {f.PIDs, func(d *run.Definition) { d.Resources.PIDs = 64 }},
	}
	for name, a := range uses {
		if a.has {
			continue
		}
		d := b.define("true")
		a.use(&d)
		b.Log(name+":", b.refused(d))
	}
}

func privilegedRefused(b *bench) {
	d := b.define("true")
	d.Privileged = true
	require.Contains(b, b.refused(d).Error(), "privilege")
}

func copyRoundTrip(b *bench) {
	h := b.start(b.define("pwd; echo old > replaced", "while [ ! -e in/go ]; do sleep 0.05; done; cat in/deep/file; ls -l in/deep/file | cut -c1-10; cat replaced"))
	pwd := strings.TrimSpace(b.awaitOutput(h, "\n").stepOutput(0))
	in := archive(b, []tar.Header{
		{Typeflag: tar.TypeDir, Name: "in/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "in/deep/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "in/deep/file", Mode: 0o750},
		{Typeflag: tar.TypeSymlink, Name: "in/link", Linkname: "deep/file", Mode: 0o777},
		{Typeflag: tar.TypeReg, Name: "replaced", Mode: 0o644},
		{Typeflag: tar.TypeReg, Name: "in/go", Mode: 0o644},
	}, "content\n")
	require.NoError(b, h.CopyTo(b.limit(), pwd, bytes.NewReader(in)))
	require.Equal(b, "content\n-rwxr-x---\ncontent\n", b.follow(h).stepOutput(1))

	out, err := h.CopyFrom(b.limit(), pwd+"/in")
	require.NoError(b, err)
	got := map[string]string{}
	for r := tar.NewReader(out); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(b, err)
		content, err := io.ReadAll(r)
		require.NoError(b, err)
		got[strings.TrimSuffix(header.Name, "/")] = string(content) + header.Linkname
	}
	require.NoError(b, out.Close())
	require.Equal(b, map[string]string{
		"in": "", "in/deep": "", "in/deep/file": "content\n", "in/link": "deep/file", "in/go": "content\n",
	}, got)

	_, err = h.CopyFrom(b.limit(), pwd+"/absent")
	require.Equal(b, run.CodeNotFound, run.CodeOf(err), "%v", err)
	b.remove(h)
}

func archive(b *bench, headers []tar.Header, content string) []byte {
	b.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		require.NoError(b, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := io.WriteString(w, content)
			require.NoError(b, err)
		}
	}
	require.NoError(b, w.Close())
	return buf.Bytes()
}

// copyInside tries to write outside of the directory, on a host where that would do
// harm.
func copyInside(b *bench) {
	h := b.start(b.define("mkdir in; pwd; sleep 30"))
	pwd := strings.TrimSpace(b.awaitOutput(h, "\n").stepOutput(0))
	for name, headers := range map[string][]tar.Header{
		"dots":     {{Typeflag: tar.TypeReg, Name: "../outside", Mode: 0o644}},
		"absolute": {{Typeflag: tar.TypeReg, Name: pwd + "/outside", Mode: 0o644}},
		"link": {
			{Typeflag: tar.TypeSymlink, Name: "up", Linkname: "..", Mode: 0o777},
			{Typeflag: tar.TypeReg, Name: "up/outside", Mode: 0o644},
		},
		"hard link": {{Typeflag: tar.TypeLink, Name: "passwd", Linkname: "/etc/passwd", Mode: 0o644}},
		"device":    {{Typeflag: tar.TypeBlock, Name: "disk", Mode: 0o644}},
	} {
		err := h.CopyTo(b.limit(), pwd+"/in", bytes.NewReader(archive(b, headers, "harm")))
		require.Equal(b, run.CodeInvalid, run.CodeOf(err), name)
	}
	out, err := h.CopyFrom(b.limit(), pwd)
	require.NoError(b, err)
	for r := tar.NewReader(out); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(b, err)
		require.NotContains(b, header.Name, "outside")
	}
	require.NoError(b, out.Close())
	b.remove(h)
}
