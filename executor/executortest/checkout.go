package executortest

import (
	"crypto/rand"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// checkoutCases test steps that check out a repository, with the git of the host or of
// Harness.GitImage. Package checkout has the tests of what git does.
func checkoutCases() []testCase {
	return []testCase{
		{"checkout/files_for_later_steps", nil, checkoutFiles},
		{"checkout/as_a_user", func(f executor.Features) bool { return f.User }, checkoutUser},
		{"checkout/credentials", func(f executor.Features) bool { return f.Services }, checkoutCredentials},
		{"checkout/fails", nil, checkoutFails},
		{"checkout/reuse", nil, checkoutReuse},
		{"checkout/planted", nil, checkoutPlanted},
		{"checkout/without_an_image", func(f executor.Features) bool { return f.Helpers }, checkoutWithoutImage},
	}
}

// makeRepository creates the bare repository repo with two commits, in a directory.
const makeRepository = `set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com GIT_CONFIG_GLOBAL=/dev/null
git init -q --bare -b main repo
git init -q -b main work
cd work
for n in 1 2; do echo $n > number; git add number; git commit -q -m "commit $n"; done
git push -q ../repo main
`

// NewRepository creates a repository as makeRepository does, and returns its path; "" if
// the host has no git.
func NewRepository(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		return ""
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", makeRepository)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(dir, "repo")
}

// requireGit skips a case if the images of the suite have no git. The host has it.
func (b *bench) requireGit() {
	b.Helper()
	if b.driver.Features().Images && b.GitImage == "" {
		b.Skip("the suite has no image with git for this driver")
	}
}

// checksOut returns a definition whose first step checks out the repository of
// makeRepository, and whose later steps run the scripts. In an environment with services,
// a service has the repository, and asks for the secret; otherwise the host has it.
func (b *bench) checksOut(secret string, scripts ...string) run.Definition {
	b.Helper()
	b.requireGit()
	d := b.define(append([]string{""}, scripts...)...)
	d.Steps[0].Checkout = &run.Checkout{Ref: "main", Depth: 1}
	if !b.driver.Features().Services {
		d.Steps[0].Checkout.Repository = "file://" + NewRepository(b)
		return d
	}
	d = b.inHelpers(d)
	d.Steps[0].Image = b.GitImage
	d.Steps[0].Checkout.Repository = "http://localhost:7775/cgi-bin/git/repo"
	if secret != "" {
		d.Environment = map[string]string{"GIT_SECRET": secret}
		d.Secrets = []string{secret}
		d.Steps[0].Checkout.Credentials = "GIT_SECRET"
	}
	d.Services = []run.ServiceSpec{{
		Name: "git", Image: b.GitImage, Secrets: map[string]string{"SECRET": "GIT_SECRET"}, Environment: map[string]string{"SECRET": secret},
		Command: []string{"/bin/sh", "-c", "mkdir -p /srv /www/cgi-bin; cd /srv; " + makeRepository + `
			printf '#!/bin/sh\nexport GIT_PROJECT_ROOT=/srv GIT_HTTP_EXPORT_ALL=1 HOME=/srv GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0="*"\nexec git http-backend\n' > /www/cgi-bin/git
			chmod +x /www/cgi-bin/git
			[ -z "$SECRET" ] || echo "/cgi-bin:$SECRET" > /httpd.conf
			touch /httpd.conf && exec httpd -f -p 127.0.0.1:7775 -h /www -c /httpd.conf`},
		Health: &run.HealthCheck{Command: []string{"/bin/sh", "-c", "nc -w 1 127.0.0.1 7775 < /dev/null"}},
	}}
	return d
}

func checkoutFiles(b *bench) {
	s := b.run(b.checksOut("", "cat number; echo more >> number; echo new > file; ls"))
	require.Equal(b, run.StatusSuccess, s.result().Status, "%s\n%s", s.result().Reason, s.output(""))
	require.Contains(b, s.stepOutput(0), "HEAD is now at")
	require.Equal(b, "2\nfile\nnumber\n", s.stepOutput(1))
}

func checkoutUser(b *bench) {
	d := b.checksOut("", "id -u; stat -c %u number; echo more >> number")
	d.User = b.User.Name
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, "%s\n%s", s.result().Reason, s.output(""))
	require.Equal(b, b.User.ID+"\n"+b.User.ID+"\n", s.stepOutput(1))
}

// checkoutCredentials searches for the password in the files of the task, and in the
// command lines of all its processes.
func checkoutCredentials(b *bench) {
	password := rand.Text()
	scan := `for file in $(find /workspace -type f) /proc/[0-9]*/cmdline; do
		grep -q "${GIT_SECRET#*:}" "$file" 2>/dev/null && echo "found in $file"
	done; cat number`
	d := b.checksOut("deploy:"+password, scan)
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, "%s\n%s", s.result().Reason, s.output(""))
	require.Equal(b, "2\n", s.stepOutput(1))
	require.NotContains(b, s.output(""), password)

	d = b.checksOut("deploy:"+password, "true")
	d.Key = key()
	d.Environment["GIT_SECRET"] = "deploy:" + strings.ToLower(password)
	s = b.run(d)
	require.Equal(b, run.StatusFailed, s.result().Status)
	require.Contains(b, s.stepOutput(0), "Authentication failed")
}

func checkoutFails(b *bench) {
	d := b.checksOut("", "echo no")
	d.Steps[0].Checkout.Ref = "nothing"
	s := b.run(d)
	require.Equal(b, run.StatusFailed, s.result().Status)
	require.Equal(b, "step 1 exited with code 1", s.result().Reason)
	require.Contains(b, s.stepOutput(0), "couldn't find remote ref nothing")
	require.NotContains(b, s.stepOutput(0), "attempt")
}

// checkoutReuse checks out twice with the object store of the executor, the second time
// after a restart. In containers, a task can read the store of its repository, in the
// containers of its checkouts alone, and not write to it.
func checkoutReuse(b *bench) {
	b.requireGit()
	if b.GitRepository == "" {
		b.Skip("the suite has no repository for this driver")
	}
	var lines []string
	checkOut := func(driver executor.Driver) {
		d := b.define("", "cat number; find /.drover/git -name '*.pack' 2>/dev/null | wc -l; touch /.drover/git/*/file && echo written || true", "ls /.drover/git || true")
		d.Key = key()
		d.Steps[0].Checkout = &run.Checkout{Repository: "file://" + b.GitRepository, Ref: "main", Reuse: true}
		stores, files := "0\n", "ls: "
		if b.driver.Features().Images {
			d = b.inHelpers(d)
			d.Steps[0].Image, d.Steps[1].Image, stores = b.GitImage, b.GitImage, "1\n"
		}
		task := b.task(d)
		task.Log = func(line string) { lines = append(lines, line) }
		h, err := driver.Start(b.limit(), task)
		require.NoError(b, err)
		b.Cleanup(func() { b.cleanUp(d.Key) })
		s := b.follow(h)
		b.remove(h)
		require.NotContains(b, s.stepOutput(0), "all objects come from the repository")
		require.Contains(b, s.stepOutput(0), "HEAD is now at")
		require.Equal(b, "2\n"+stores, strings.Split(s.stepOutput(1), "touch")[0])
		require.NotContains(b, s.stepOutput(1), "written")
		require.Contains(b, s.stepOutput(2), files)
	}
	checkOut(b.driver)
	checkOut(b.reopen())
	require.Equal(b, 2, strings.Count(strings.Join(lines, "\n"), "updated the object store"), lines)
}

// plant leaves what git may execute or follow wherever a task can write: in its working
// directory, in the home directory, and in object stores. PROOF is the file that would be
// written, and STORES the directory of the stores.
const plant = `
evil='echo executed $0 >> PROOF; true'
plant() {
	mkdir -p "$1" && touch "$1/planted" 2>/dev/null || return 0
	echo "planted in $2"
	mkdir -p "$1/hooks" "$1/info"
	for hook in post-checkout reference-transaction post-index-change fsmonitor-watchman; do
		printf '#!/bin/sh\n%s\n' "$evil" > "$1/hooks/$hook"
		chmod +x "$1/hooks/$hook"
	done
	for key in core.fsmonitor core.sshCommand core.alternateRefsCommand core.gitProxy credential.helper filter.evil.smudge filter.evil.clean filter.evil.process; do
		git config -f "$1/config" "$key" "$evil"
	done
	git config -f "$1/config" core.hooksPath "$1/hooks"
	git config -f "$1/config" submodule.module.update "!$evil"
}
plant .git "the work tree"
plant "$HOME/.config/git" "the home directory"
git config -f "$HOME/.config/git/config" url.file:///nowhere/.insteadOf file:///
cp "$HOME/.config/git/config" "$HOME/.gitconfig"
for store in /.drover/git/* STORES/*; do
	[ -d "$store/repository.git" ] || continue
	objects=$store/repository.git/objects
	plant "$store/repository.git" "the store"
	git init -q --bare "$store/repository.git/.git" 2>/dev/null && plant "$store/repository.git/.git" "the store" && echo "$objects" > "$store/repository.git/.git/objects/info/alternates"
done
printf '* filter=evil\n' > .gitattributes
echo untouched > VICTIM
ln -sf VICTIM number
mkdir -p sub
ln -sf VICTIM sub/number
ln -sfn "$(dirname VICTIM)" src
`

// checkoutPlanted checks out what a task before has checked out, and has left all it could.
// Both have the same working directory and home directory, on hosts.
func checkoutPlanted(b *bench) {
	b.requireGit()
	if b.GitRepository == "" {
		b.Skip("the suite has no repository for this driver")
	}
	containers := b.driver.Features().Images
	dir := "/tmp/shared" // in containers, each task has its own
	if !containers {
		dir = b.TempDir()
	}
	proof, victim := dir+"/proof", dir+"/victim"
	follow := func(c run.Checkout, scripts ...string) recording {
		d := b.define(append([]string{""}, scripts...)...)
		d.Key = key()
		c.Repository, c.Ref, c.Reuse = "file://"+b.GitRepository, "main", true
		d.Steps[0].Checkout = &c
		if containers {
			d = b.inHelpers(d)
			d.Steps[0].Image, d.Steps[1].Image = b.GitImage, b.GitImage
		} else {
			d.WorkingDir, d.Environment = dir+"/work", map[string]string{"HOME": dir + "/home"}
		}
		var log []string
		task := b.task(d)
		task.Log = func(line string) { log = append(log, line) }
		h, err := b.driver.Start(b.limit(), task)
		require.NoError(b, err)
		b.Cleanup(func() { b.cleanUp(d.Key) })
		s := b.follow(h)
		b.remove(h)
		require.Equal(b, run.StatusSuccess, s.result().Status, "%s\n%s", s.result().Reason, s.output(""))
		require.Contains(b, strings.Join(log, "\n"), "updated the object store")
		require.NotContains(b, s.stepOutput(0), "all objects come from the repository")
		return s
	}
	stores := b.GitStores
	if stores == "" {
		stores = "/no/such/directory"
	}
	s := follow(run.Checkout{}, "mkdir -p "+dir+strings.NewReplacer("PROOF", proof, "STORES", stores, "VICTIM", victim).Replace(plant))
	require.Contains(b, s.stepOutput(1), "planted in the work tree")
	require.Equal(b, b.GitStores != "", strings.Contains(s.stepOutput(1), "planted in the store"), s.stepOutput(1))

	no := false
	for _, c := range []run.Checkout{{Clean: &no}, {Clean: &no, Path: "src", Submodules: run.SubmodulesRecursive}, {}} {
		s = follow(c, fmt.Sprintf("[ ! -e %[2]s ] || cat %[2]s; [ ! -e %[3]s ] || cat %[3]s; cd ./%[1]s; [ ! -L number ]; cat number; git config --list --local | grep executed || true", c.Path, proof, victim))
		want := "2\n"
		if !containers {
			want = "untouched\n2\n"
		}
		require.Equal(b, want, s.stepOutput(1))
	}
}

// checkoutWithoutImage leaves the image of the step to the executor, which may have none.
func checkoutWithoutImage(b *bench) {
	d := b.define("", "cat number")
	d.Steps[0].Checkout = &run.Checkout{Repository: "file://" + b.GitRepository}
	if b.GitRepository == "" {
		require.Contains(b, b.refused(d).Error(), "executor.checkout_image")
		return
	}
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, "%s\n%s", s.result().Reason, s.output(""))
	require.Equal(b, "2\n", s.stepOutput(1))
}
