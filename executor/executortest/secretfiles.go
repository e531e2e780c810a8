package executortest

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// secretFileCases test secrets that are files.
func secretFileCases() []testCase {
	files := func(f executor.Features) bool { return f.SecretFiles }
	return []testCase{
		{name: "secret_files", needs: files, run: secretFiles},
		{name: "secret_files_are_the_users", needs: func(f executor.Features) bool { return f.SecretFiles && f.User }, run: secretFilesOfUser},
		{name: "secret_files_are_not_packed", needs: func(f executor.Features) bool { return f.SecretFiles && f.Archives }, run: secretFilesPacked},
		{name: "secret_files_killed_at_the_launch", needs: files, run: secretFilesResumed},
		{name: "secret_files_killed_in_mid_task", needs: files, run: secretFilesAdopted},
		{name: "secret_files_vanished", needs: files, run: secretFilesVanished},
	}
}

// addSecretFile adds a multiline secret to the definition as the file KEY, and returns
// its content and one of its lines.
func addSecretFile(d *run.Definition) (content, line string) {
	line = "line-" + rand.Text()
	content = "-----BEGIN-----\n" + line + "\n-----END-----\n"
	d.SecretFiles = map[string]string{"KEY": content}
	d.Secrets = []string{content, line}
	return content, line
}

func sumOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// secretFiles reads the file, checks its mode and file system, and searches for its
// content where it must not appear.
func secretFiles(b *bench) {
	d := b.define(
		`sha256sum < "$KEY" | cut -c1-64; ls -l "$KEY" | cut -c1-10; ls -ld "${KEY%/*}" | cut -c1-10; stat -f -c %T "$KEY"`,
		`cat "$KEY"; while read -r one; do echo "[$one]"; done < "$KEY"`,
		`grep -c "$(sed -n 2p "$KEY")" /proc/self/environ /proc/1/environ /proc/1/cmdline 2>/dev/null | cut -d: -f2 | sort -u; echo "$KEY" | wc -l | tr -d ' '`,
	)
	d.Environment = map[string]string{"KEY": "a plain variable of that name"}
	content, line := addSecretFile(&d)
	h := b.start(d)
	s := b.follow(h)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, sumOf(content)+"\n-r--------\ndrwx------\ntmpfs\n", s.stepOutput(0))
	require.NotContains(b, s.output(""), line, "it is masked")
	require.Contains(b, s.stepOutput(1), "[***]")
	require.Equal(b, "0\n1\n", s.stepOutput(2), "no environment and no argument contains it")
	if b.Describe != nil {
		require.NotContains(b, b.Describe(b, d.Key), line, "description of the environment by the host")
	}
	b.remove(h)
}

// secretFilesOfUser checks that the files belong to the user of the steps.
func secretFilesOfUser(b *bench) {
	d := b.define(`id -u; ls -ln "$KEY" | tr -s ' ' | cut -d' ' -f1,3,4; ls -ldn "${KEY%/*}" | tr -s ' ' | cut -d' ' -f1,3; sha256sum < "$KEY" | cut -c1-64`)
	content, _ := addSecretFile(&d)
	d.User = "1234:5678"
	s := b.run(d)
	require.Equal(b, "1234\n-r-------- 1234 5678\ndrwx------ 1234\n"+sumOf(content)+"\n", s.output(""), s.result().Reason)
}

// secretFilesPacked packs all files, from the root and from the directory of the
// secrets.
func secretFilesPacked(b *bench) {
	root := b.Memory
	if root == "" {
		root = "/"
	}
	d := b.steps(
		script(`sha256sum < "$KEY" | cut -c1-64; mkdir -p "${KEY%/*/*}/beside" && echo seen > "${KEY%/*/*}/beside/it"`),
		saves(root, "", "**", "!proc", "!sys", "!dev", "!.drover/bin"), script(`rm -rf "${KEY%/*/*}/beside"`),
	)
	content, line := addSecretFile(&d)
	var saved []byte
	s := b.serve(d, saveAndRestore(&saved))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, sumOf(content)+"\n", s.stepOutput(0))
	z, err := zstd.NewReader(bytes.NewReader(saved))
	require.NoError(b, err)
	defer z.Close()
	names := map[string]bool{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(b, err)
		names[filepath.Base(h.Name)] = true
		packed, err := io.ReadAll(r)
		require.NoError(b, err)
		require.NotContains(b, string(packed), line, h.Name)
	}
	require.True(b, names["it"], "files beside it are packed")
	require.False(b, names["KEY"])
}

// secretFilesResumed resumes a task that was killed before the files were written.
func secretFilesResumed(b *bench) {
	d := b.define(`sha256sum < "$KEY" | cut -c1-64`)
	content, _ := addSecretFile(&d)
	b.killChild(childTask{Definition: d, HangAt: hangAtLaunch}, saysReached)
	task := b.task(d)
	task.Resume = true
	h, err := b.driver.Start(b.limit(), task)
	require.NoError(b, err)
	s := b.follow(h)
	require.Equal(b, sumOf(content)+"\n", s.output(""), s.result().Reason)
	b.remove(h)
}

// secretFilesAdopted checks that the files stay for the process that continues
// after a kill.
func secretFilesAdopted(b *bench) {
	d := b.define("echo begun; for i in 1 2 3 4 5; do sleep 0.1; done", `sha256sum < "$KEY" | cut -c1-64`)
	content, _ := addSecretFile(&d)
	b.killChild(childTask{Definition: d}, `output "begun`)
	h, err := b.driver.Attach(b.limit(), d.Key)
	require.NoError(b, err)
	s := b.follow(h)
	require.Equal(b, sumOf(content)+"\n", s.stepOutput(1), s.result().Reason)
	b.remove(h)
}

// secretFilesVanished checks that Remove removes the files.
func secretFilesVanished(b *bench) {
	d := b.define(`sha256sum < "$KEY"; sleep 300`)
	addSecretFile(&d)
	h := b.start(d)
	b.awaitOutput(h, "\n")
	b.Vanish(b, d.Key)
	s := read(b.limit(), h, 1, nil)
	require.Equal(b, run.CodeNotFound, run.CodeOf(s.err), "%v", s.err)
	b.remove(h)
}
