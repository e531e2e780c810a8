package executortest

import (
	archivetar "archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/run"
)

// archiveCases test steps that move archives. The suite takes the part of the
// executor.
func archiveCases() []testCase {
	archives := func(f executor.Features) bool { return f.Archives }
	return []testCase{
		{name: "archive_round_trip", needs: archives, run: archiveRoundTrip},
		{name: "archive_of_nothing", needs: archives, run: archiveNothing},
		{name: "archive_within_few_processes", needs: func(f executor.Features) bool { return f.Archives && f.PIDs }, run: archiveFewProcesses},
		{name: "archive_belongs_to_the_user", needs: func(f executor.Features) bool { return f.Archives && f.User }, run: archiveUser},
		{name: "archive_stays_inside", needs: archives, run: archiveInside},
		{name: "archive_is_not_all", needs: archives, run: archiveNotAll},
		{name: "archive_faults", needs: archives, run: archiveFaults},
		{name: "archive_answer_counts_once", needs: archives, run: archiveAnswers},
		{name: "archive_keys", needs: archives, run: archiveKeys},
		{name: "archive_step_times_out", needs: archives, run: archiveTimeout},
		{name: "archive_stopped", needs: archives, run: archiveStopped},
		{name: "archive_killed_in_a_transfer", needs: archives, run: archiveKilled},
	}
}

// steps returns a definition of steps of any kind.
func (b *bench) steps(steps ...run.StepDef) run.Definition {
	d := b.define()
	d.WorkingDir = "place" // in a container it is the root directory otherwise
	for _, s := range steps {
		if s.When == "" {
			s.When = run.WhenOnSuccess
		}
		d.Steps = append(d.Steps, s)
	}
	return d
}

func script(text string) run.StepDef { return run.StepDef{Script: text} }

func saves(root, to string, paths ...string) run.StepDef {
	return run.StepDef{ArchiveStep: run.ArchiveStep{SaveWorkspace: &run.SaveWorkspace{
		ArchivePaths: run.ArchivePaths{Root: root, Paths: paths}, To: to,
	}}}
}

func restores(to string) run.StepDef {
	return run.StepDef{ArchiveStep: run.ArchiveStep{RestoreWorkspace: &run.RestoreWorkspace{To: to}}}
}

// archiveServer is the suite in the part of an executor of one environment.
type archiveServer struct {
	*bench
	handle executor.ArchiveHandle
}

// serve starts the definition, calls each for every step with a request, and
// follows the task to its end.
func (b *bench) serve(d run.Definition, each func(m archiveServer, frame run.Frame)) recording {
	b.Helper()
	h := b.start(d)
	s := b.serveOn(h, each)
	b.remove(h)
	return s
}

func (b *bench) serveOn(h executor.Handle, each func(m archiveServer, frame run.Frame)) recording {
	b.Helper()
	archives, ok := h.(executor.ArchiveHandle)
	require.True(b, ok, "the driver declares archives")
	s := read(b.limit(), h, 1, func(s recording) bool {
		if f := s.frames[len(s.frames)-1]; f.Kind == run.FrameArchiveRequest {
			each(archiveServer{b, archives}, f)
		}
		return false
	})
	require.NoError(b, s.err)
	b.requireWhole(s, firstFrame)
	return s
}

func (m archiveServer) connect() io.ReadWriteCloser {
	m.Helper()
	c, err := m.handle.Connect(m.limit())
	require.NoError(m, err)
	return c
}

// stepRequest returns the request of a step as far as transfers need it.
func stepRequest(frame run.Frame) transfer.StepRequest {
	return transfer.StepRequest{Frame: frame.N, Keepalives: true}
}

func (m archiveServer) pack(frame run.Frame) ([]byte, error) {
	m.Helper()
	p, err := transfer.Pack(m.limit(), m.connect(), stepRequest(frame), transfer.Limits{})
	require.NoError(m, err)
	content, err := io.ReadAll(p)
	require.NoError(m, p.Close())
	if err == nil {
		m.Logf("packed %+v", p.Stats())
	}
	return content, err
}

func (m archiveServer) unpack(frame run.Frame, content io.Reader) error {
	m.Helper()
	stats, err := transfer.Unpack(m.limit(), m.connect(), stepRequest(frame), transfer.Limits{}, content)
	if err == nil {
		m.Logf("unpacked %+v", stats)
	}
	return err
}

func (m archiveServer) answer(frame run.Frame, a transfer.Answer) {
	m.Helper()
	require.NoError(m, transfer.Send(m.limit(), m.connect(), frame.N, a))
}

// saveAndRestore serves steps that save and restore: it restores the saved archive.
func saveAndRestore(saved *[]byte) func(m archiveServer, frame run.Frame) {
	return func(m archiveServer, frame run.Frame) {
		wanted, err := transfer.Inquire(m.limit(), m.connect(), frame.N)
		require.NoError(m, err)
		switch wanted.Type {
		case run.StepRestoreWorkspace, run.StepRestoreCache:
			require.NoError(m, m.unpack(frame, bytes.NewReader(*saved)))
		default:
			*saved, err = m.pack(frame)
			require.NoError(m, err)
		}
		m.answer(frame, transfer.Answer{Lines: []string{"moved " + wanted.Type}})
	}
}

func archiveRoundTrip(b *bench) {
	var saved []byte
	s := b.serve(b.steps(
		script(`mkdir -p tree/deep/empty tree/cache && cd tree
			echo content > deep/file && chmod 750 deep/file && ln deep/file hard && ln -s deep/file soft && ln -s ../outside dangling
			echo secretive > deep/own && chmod 600 deep/own && chmod 711 deep && echo no > cache/no && echo sp > "odd name"
			dd if=/dev/zero of=sparse bs=1 count=1 seek=10000000 2>/dev/null; touch -t 200102030405.06 deep/file`),
		saves("tree", "packed", "**", "!cache/**"),
		restores("copy"),
		script(`cd copy/packed
			cat hard; cat soft; ls -l deep/file | cut -c1-10; ls -l deep/own | cut -c1-10; ls -ld deep | cut -c1-10
			[ "$(ls -i deep/file | awk '{print $1}')" = "$(ls -i hard | awk '{print $1}')" ] && echo linked; readlink soft; readlink dangling; [ -d deep/empty ] && echo empty; [ ! -e cache/no ] && echo excluded
			wc -c < sparse | tr -d ' '; [ "$(du -k sparse | cut -f1)" -lt 1000 ] && echo holes; cat "odd name"
			[ deep/file -ot deep/own ] && echo older`),
	), saveAndRestore(&saved))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "content\ncontent\n-rwxr-x---\n-rw-------\ndrwx--x--x\nlinked\ndeep/file\n../outside\nempty\nexcluded\n10000001\nholes\nsp\nolder\n", s.stepOutput(3))
	require.Equal(b, "moved save_workspace\n", s.stepOutput(1))
	require.Equal(b, "moved restore_workspace\n", s.stepOutput(2))
	require.Equal(b, run.StreamSystem, s.frames[streamOf(s, 1)].Stream)
	require.Nil(b, s.result().Steps[1].ExitCode, "an archive step has none")
	require.Equal(b, []run.Stage{"", run.StageTransfer, run.StagePrepare, ""}, stages(s.result()))
	requireStages(b, s)
	require.Equal(b, 0, *s.result().ExitCode)
}

// streamOf returns the index of the first output of a step.
func streamOf(s recording, step int) int {
	for i, f := range s.frames {
		if f.Kind == run.FrameOutput && f.Step == step {
			return i
		}
	}
	return 0
}

func archiveNothing(b *bench) {
	var saved []byte
	s := b.serve(b.steps(script("mkdir none; pwd"), saves("none", ""), restores("new/deep"), script("ls new/deep | wc -l | tr -d ' '")), saveAndRestore(&saved))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "0\n", s.stepOutput(3))
}

// archiveFewProcesses moves an archive in a task that may have only one process:
// the file helper does not count.
func archiveFewProcesses(b *bench) {
	var saved []byte
	d := b.steps(script("head -c 20000000 /dev/urandom > noise"), saves("", "", "noise"), restores("copy"), script("cmp noise copy/noise && echo same"))
	d.Resources = run.Resources{PIDs: 1}
	s := b.serve(d, saveAndRestore(&saved))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "same\n", s.stepOutput(3))
}

// archiveUser moves files as the task's user, who owns the unpacked files and
// cannot pack files that only other users may read.
func archiveUser(b *bench) {
	var saved []byte
	d := b.steps(script("echo mine > mine; chmod 600 mine"), saves("", "", "mine"), restores("made/here"),
		script("id -u; ls -ln made/here/mine | tr -s ' ' | cut -d' ' -f3; ls -ldn made/here | tr -s ' ' | cut -d' ' -f3"))
	d.User, d.WorkingDir = "1234:1234", "/work/place"
	s := b.serve(d, saveAndRestore(&saved))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "1234\n1234\n1234\n", s.stepOutput(3))

	d = b.steps(saves("/etc", "", "shadow-of-root"))
	d.User = "1234:1234"
	d.Steps[0].SaveWorkspace.Root, d.Steps[0].SaveWorkspace.Paths = "/.drover/task", nil
	s = b.serve(d, func(m archiveServer, frame run.Frame) {
		_, err := m.pack(frame)
		var fault *transfer.FaultError
		require.ErrorAs(m, err, &fault)
		m.answer(frame, transfer.Answer{Fault: fault.Message})
	})
	require.Equal(b, run.StatusFailed, s.result().Status)
}

func archiveInside(b *bench) {
	d := b.steps(script("mkdir in; echo safe > safe"), restores("in"), script("cat safe; ls"))
	s := b.serve(d, func(m archiveServer, frame run.Frame) {
		for name, headers := range map[string][]archivetar.Header{
			"dots":     {{Typeflag: archivetar.TypeReg, Name: "../safe", Mode: 0o644}},
			"absolute": {{Typeflag: archivetar.TypeReg, Name: "/tmp/drover-outside", Mode: 0o644}},
			"link": {
				{Typeflag: archivetar.TypeSymlink, Name: "up", Linkname: "..", Mode: 0o777},
				{Typeflag: archivetar.TypeReg, Name: "up/safe", Mode: 0o644},
			},
			"hard link": {{Typeflag: archivetar.TypeLink, Name: "passwd", Linkname: "/etc/passwd", Mode: 0o644}},
			"device":    {{Typeflag: archivetar.TypeBlock, Name: "disk", Mode: 0o644}},
		} {
			err := m.unpack(frame, bytes.NewReader(packed(m.bench, headers, "harm")))
			var fault *transfer.FaultError
			require.ErrorAs(m, err, &fault, name)
			require.Equal(m, run.CodeInvalid, fault.Code, "%s: %v", name, err)
		}
		m.answer(frame, transfer.Answer{})
	})
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.True(b, strings.HasPrefix(s.stepOutput(2), "safe\n"), s.stepOutput(2))
}

func packed(b *bench, headers []archivetar.Header, content string) []byte {
	b.Helper()
	z, err := zstd.NewWriter(nil)
	require.NoError(b, err)
	return z.EncodeAll(archive(b, headers, content), nil)
}

// archiveNotAll breaks streams off in several ways. The step continues to wait, and
// a part is never taken for the whole.
func archiveNotAll(b *bench) {
	var saved []byte
	errSource := errors.New("read error")
	whole := saveAndRestore(&saved)
	d := b.steps(script("head -c 3000000 /dev/urandom > noise"), saves("", ""), restores("copy"), script("cmp noise copy/noise && echo same"))
	s := b.serve(d, func(m archiveServer, frame run.Frame) {
		wanted, err := transfer.Inquire(m.limit(), m.connect(), frame.N)
		require.NoError(m, err)
		if wanted.Type == run.StepSaveWorkspace {
			p, err := transfer.Pack(m.limit(), m.connect(), stepRequest(frame), transfer.Limits{})
			require.NoError(m, err)
			_, err = io.CopyN(io.Discard, p, 1000)
			require.NoError(m, err)
			require.NoError(m, p.Close())
			_, err = io.Copy(io.Discard, p)
			require.Error(m, err, "a closed transfer has no end")
			whole(m, frame)
			return
		}
		for name, content := range map[string]io.Reader{
			"a source that fails": io.MultiReader(bytes.NewReader(saved[:len(saved)/2]), failing{errSource}),
			"a part":              bytes.NewReader(saved[:len(saved)/2]),
			"nothing":             bytes.NewReader(nil),
		} {
			require.Error(m, m.unpack(frame, content), name)
		}
		require.ErrorIs(m, m.unpack(frame, failing{errSource}), errSource)
		ctx, cancel := context.WithCancel(m.Context())
		_, err = transfer.Unpack(ctx, m.connect(), stepRequest(frame), transfer.Limits{}, io.MultiReader(bytes.NewReader(saved[:100]), canceling{cancel}))
		require.Error(m, err)
		require.Error(m, m.unpack(frame, io.MultiReader(bytes.NewReader(saved), bytes.NewReader(make([]byte, 2<<20)))), "trailing data")
		whole(m, frame)
	})
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "same\n", s.stepOutput(3))
}

// failing is a source that fails.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// canceling is a source that cancels a context.
type canceling struct{ cancel context.CancelFunc }

// Read implements io.Reader.
func (c canceling) Read(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

func archiveFaults(b *bench) {
	d := b.steps(saves("absent", ""), script("echo not"), restores("x"), script("echo cleaning"))
	d.Steps[2].When, d.Steps[3].When = run.WhenOnSuccess, run.WhenAlways
	s := b.serve(d, func(m archiveServer, frame run.Frame) {
		_, err := m.pack(frame)
		var fault *transfer.FaultError
		require.ErrorAs(m, err, &fault)
		require.Equal(m, run.CodeNotFound, fault.Code)
		err = m.unpack(frame, strings.NewReader("x"))
		require.ErrorAs(m, err, &fault, "the step saves")
		require.Equal(m, run.CodeInvalid, fault.Code)
		m.answer(frame, transfer.Answer{Lines: []string{"a line"}, Fault: "there is no directory"})
	})
	r := s.result()
	require.Equal(b, run.StatusFailed, r.Status)
	require.Equal(b, run.CauseStep, r.Cause)
	require.Equal(b, "step 1 could not save the workspace: there is no directory", r.Reason)
	require.Equal(b, []run.Status{run.StatusFailed, run.StatusSkipped, run.StatusSkipped, run.StatusSuccess}, statuses(r))
	require.Equal(b, "a line\n", s.stepOutput(0))
	require.Equal(b, "cleaning\n", s.stepOutput(3))
}

func archiveAnswers(b *bench) {
	d := b.steps(restores("x"), script("sleep 1"), restores("y"))
	var first run.Frame
	s := b.serve(d, func(m archiveServer, frame run.Frame) {
		if first.N == 0 {
			first = frame
			_, err := transfer.Inquire(m.limit(), m.connect(), frame.N+1)
			require.Error(m, err, "another frame")
			m.answer(frame, transfer.Answer{})
			return
		}
		err := transfer.Send(m.limit(), m.connect(), first.N, transfer.Answer{Fault: "late"})
		require.Equal(m, run.CodeConflict, run.CodeOf(err), "%v", err)
		m.answer(frame, transfer.Answer{})
	})
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
}

func archiveKeys(b *bench) {
	d := b.steps(script("mkdir sub; printf one > go.sum; printf two > sub/go.sum"), run.StepDef{
		Environment: map[string]string{"STEP": "s1"},
		ArchiveStep: run.ArchiveStep{RestoreCache: &run.RestoreCache{Keys: []string{
			`go-{{ sha256 "go.sum" }}`, `{{ sha256 "**/go.sum" }}`, `{{ os }}-{{ arch }}-{{ env "STEP" }}-{{ env "TASK" }}`, "plain-", `{{ date "2006" }}-{{ year }}`,
		}}},
	})
	d.Environment = map[string]string{"TASK": "t1", "TOKEN": "xq-hidden-3141"}
	d.Secrets = []string{"xq-hidden-3141"}
	var keys []string
	s := b.serve(d, func(m archiveServer, frame run.Frame) {
		wanted, err := transfer.Inquire(m.limit(), m.connect(), frame.N)
		require.NoError(m, err)
		keys = wanted.Keys
		m.answer(frame, transfer.Answer{})
	})
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	one, two := sha256.Sum256([]byte("one")), sha256.Sum256([]byte("two"))
	list := sha256.Sum256([]byte(hex.EncodeToString(one[:]) + "  go.sum\n" + hex.EncodeToString(two[:]) + "  sub/go.sum\n"))
	year := s.result().Started.Format("2006")
	require.Equal(b, []string{
		"go-" + hex.EncodeToString(one[:]), hex.EncodeToString(list[:]), "linux-" + runtime.GOARCH + "-s1-t1", "plain-", year + "-" + year,
	}, keys)

	for template, want := range map[string]string{
		`{{ sha256 "absent" }}`:        "no file",
		`{{ sha256 "../outside" }}`:    "leads out",
		`{{ sha256 "/etc/passwd" }}`:   "does not lie below",
		`{{ env "TOKEN" }}`:            "holds a secret",
		`{{ printf "%q" (env "NO") }}`: "no variable NO",
		"xq-hidden-3141":               "holds a secret",
	} {
		d.Key = key()
		d.Steps = d.Steps[:1]
		d.Steps = append(d.Steps, run.StepDef{When: run.WhenOnSuccess, ArchiveStep: run.ArchiveStep{SaveCache: &run.SaveCache{Key: template}}})
		r := b.serve(d, func(m archiveServer, _ run.Frame) { m.Errorf("%s: it sent a request", template) }).result()
		require.Equal(b, run.StatusFailed, r.Status, template)
		require.Contains(b, r.Reason, want, template)
		require.NotContains(b, r.Reason, "xq-hidden-3141")
	}
}

func archiveTimeout(b *bench) {
	d := b.steps(saves("", ""), script("echo cleaning"))
	d.Steps[0].Timeout, d.Steps[1].When = 500*time.Millisecond, run.WhenAlways
	s := b.serve(d, func(archiveServer, run.Frame) {})
	r := s.result()
	require.Equal(b, run.StatusFailed, r.Status)
	require.Equal(b, run.CauseTimeout, r.Cause)
	require.Equal(b, "step 1 timed out after 500ms", r.Reason)
	require.True(b, r.Steps[0].TimedOut)
	require.Equal(b, "cleaning\n", s.stepOutput(1))
}

// archiveStopped stops a task in the middle of a transfer that no process
// continues.
func archiveStopped(b *bench) {
	d := b.steps(script("head -c 30000000 /dev/urandom > noise"), saves("", ""), script("echo no"))
	d.Steps[2].When = run.WhenOnFailure
	var packing *transfer.Packing
	h := b.start(d)
	s := b.serveOn(h, func(m archiveServer, frame run.Frame) {
		var err error
		packing, err = transfer.Pack(m.limit(), m.connect(), stepRequest(frame), transfer.Limits{})
		require.NoError(m, err)
		_, err = io.CopyN(io.Discard, packing, 1000)
		require.NoError(m, err)
		require.NoError(m, m.handle.Stop(m.limit(), endless), "no process needs the grace")
	})
	require.Equal(b, run.StatusStopped, s.result().Status, s.result().Reason)
	require.Equal(b, run.StatusStopped, s.result().Steps[1].Status)
	require.Empty(b, s.stepOutput(2))
	_, err := io.Copy(io.Discard, packing)
	require.Error(b, err, "a stopped transfer has no end")
	require.NoError(b, packing.Close())
	b.remove(h)
}

// archiveKilled kills an executor in the middle of a transfer of each direction.
func archiveKilled(b *bench) {
	var saved []byte
	d := b.steps(script("head -c 3000000 /dev/urandom > noise"), saves("", ""), restores("copy"), script("cmp noise copy/noise && echo same"))
	b.killChild(childTask{Definition: d, Move: true}, saysMoving)
	h, err := b.driver.Attach(b.limit(), d.Key)
	require.NoError(b, err)
	s := b.serveOn(h, saveAndRestore(&saved))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "same\n", s.stepOutput(3))
	b.remove(h)
}
