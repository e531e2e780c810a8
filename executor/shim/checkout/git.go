package checkout

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

// sha256Digits is the length of the name of a commit in a repository with SHA-256.
const sha256Digits = 64

// The variables through which the credential helper gets the credentials.
const (
	variableUser     = "DROVER_GIT_USERNAME"
	variablePassword = "DROVER_GIT_PASSWORD" //nolint:gosec // a name
)

// credentialHelper answers git's request for credentials, and no other request.
const credentialHelper = `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$` + variableUser + `" "$` + variablePassword + `"; }; f`

// killDelay is the time between the end of the context and SIGKILL for git.
const killDelay = 5 * time.Second

// inherited are the variables of git that the step may set.
func inherited() []string {
	return []string{"GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_HTTP_LOW_SPEED_LIMIT", "GIT_HTTP_LOW_SPEED_TIME"}
}

// setting is a setting of git.
type setting struct{ key, value string }

// settings apply to all calls of git, also to those for submodules: they override all
// files.
func (c *checkout) settings() ([]setting, error) {
	all := []setting{
		{"core.hooksPath", "/dev/null"},
		{"core.fsmonitor", "false"},
		{"core.sshCommand", "ssh -o BatchMode=yes"},
		{"credential.helper", ""}, // none of the system
		{"safe.directory", "*"},
		{"protocol.ext.allow", "never"},
		{"init.defaultBranch", "main"},
		{"advice.detachedHead", "false"},
		{"submodule.recurse", "false"},
		{"fetch.recurseSubmodules", "false"},
		{"fetch.unpackLimit", "1"},
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
	}
	if c.LFS {
		all = append(all,
			setting{"filter.lfs.clean", "git-lfs clean -- %f"},
			setting{"filter.lfs.smudge", "git-lfs smudge --skip -- %f"},
			setting{"filter.lfs.process", "git-lfs filter-process --skip"},
			setting{"filter.lfs.required", "true"})
	}
	if c.Secret != "" {
		u, err := url.Parse(c.Repository)
		if err != nil || u.Host == "" {
			return nil, permanentError{errors.New("credentials are for repositories with an http or https address")}
		}
		all = append(all, setting{"credential." + u.Scheme + "://" + u.Host + ".helper", credentialHelper})
	}
	return all, nil
}

// environment returns the variables of git: those of the step without the ones that
// configure git, and the settings.
func (c *checkout) environment(step []string, home string) ([]string, error) {
	var env []string
	for _, entry := range step {
		name, _, _ := strings.Cut(entry, "=")
		if name == "HOME" || name == "XDG_CONFIG_HOME" || strings.HasPrefix(name, "GIT_") && !slices.Contains(inherited(), name) {
			continue
		}
		env = append(env, entry)
	}
	env = append(env, "HOME="+home, "XDG_CONFIG_HOME="+home, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "GIT_LFS_SKIP_SMUDGE=1")
	settings, err := c.settings()
	if err != nil {
		return nil, err
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s.key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s.value))
	}
	if c.Secret != "" {
		user, password, named := strings.Cut(c.Secret, ":")
		if !named {
			user, password = defaultUser, c.Secret
		}
		env = append(env, variableUser+"="+user, variablePassword+"="+password)
	}
	return env, nil
}

// command returns a call of git in the work tree.
func (c *checkout) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = c.tree, c.env
	cmd.Stdout, cmd.Stderr = c.stdout, c.stderr
	cmd.WaitDelay = killDelay
	return cmd
}

// permanent has what git prints for errors that another attempt does not change. A
// password that is refused is not tried again: servers lock accounts for that.
func permanent() []string {
	return []string{"couldn't find remote ref", "Authentication failed", "could not read Username", "could not read Password", "' not found", "does not appear to be a git repository"}
}

// git runs git in the work tree.
func (c *checkout) git(ctx context.Context, args ...string) error {
	var printed bytes.Buffer
	cmd := c.command(ctx, args...)
	cmd.Stderr = io.MultiWriter(c.stderr, &printed)
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return permanentError{errors.New("there is no git in the environment of this step: use an image with git, or install it on the host")}
	case err != nil && slices.ContainsFunc(permanent(), func(text string) bool { return strings.Contains(printed.String(), text) }):
		return permanentError{fmt.Errorf("git %s: %w", args[0], err)}
	case err != nil:
		return fmt.Errorf("git %s: %w", args[0], err)
	}
	return nil
}

// has reports whether the repository has a commit.
func (c *checkout) has(ctx context.Context, commit string) bool {
	cmd := c.command(ctx, "cat-file", "-e", commit+"^{commit}")
	cmd.Stderr = nil
	return cmd.Run() == nil
}

// resolve returns the name of the commit of a revision.
func (c *checkout) resolve(ctx context.Context, revision string) (string, error) {
	var out bytes.Buffer
	cmd := c.command(ctx, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("there is no commit %s: %w", revision, err)
	}
	return strings.TrimSpace(out.String()), nil
}

// fetchAndCheckOut fetches the commit and puts its files into the work tree.
func (c *checkout) fetchAndCheckOut(ctx context.Context) error {
	if c.Store != "" {
		if err := c.copyFromStore(ctx); err != nil {
			_, _ = fmt.Fprintln(c.stderr, "drover: checkout: all objects come from the repository:", err)
			c.Store = ""
			if err := c.prepare(ctx, c.Cleans()); err != nil {
				return err
			}
		}
	}
	commit, err := c.fetch(ctx)
	if err != nil {
		return err
	}
	if c.Store != "" {
		if err := c.forgetStore(ctx); err != nil {
			return err
		}
	}
	if err := c.git(ctx, "checkout", "--quiet", "--force", "--detach", commit); err != nil {
		return err
	}
	if c.LFS {
		if err := c.pullLFS(ctx); err != nil {
			return err
		}
	}
	if c.Submodules == run.SubmodulesNormal || c.Submodules == run.SubmodulesRecursive {
		if err := c.updateSubmodules(ctx); err != nil {
			return err
		}
	}
	return c.git(ctx, "--no-pager", "log", "-1", "--no-show-signature", "--format=HEAD is now at %h %s")
}

// fetch fetches the refs, and returns the commit to check out.
func (c *checkout) fetch(ctx context.Context) (string, error) {
	refs := c.RefSpecs
	if len(refs) == 0 {
		refs = []string{cmp.Or(c.Ref, c.SHA, "HEAD")}
	}
	err := c.fetchRefs(ctx, c.Depth, refs...)
	if c.SHA == "" {
		if err != nil {
			return "", err
		}
		if c.Ref == "" || len(c.RefSpecs) == 0 {
			return c.resolve(ctx, "FETCH_HEAD")
		}
		for _, revision := range []string{c.Ref, "refs/remotes/origin/" + strings.TrimPrefix(c.Ref, "refs/heads/"), "FETCH_HEAD"} {
			if commit, err := c.resolve(ctx, revision); err == nil {
				return commit, nil
			}
		}
		return "", permanentError{fmt.Errorf("the refspecs fetch no ref %s", c.Ref)}
	}
	if err == nil && c.has(ctx, c.SHA) {
		return c.SHA, nil
	}
	// The commit is older than the depth, or the ref has moved. Not every server sends a
	// commit by its name.
	byName := c.fetchRefs(ctx, c.Depth, c.SHA)
	if byName == nil && c.has(ctx, c.SHA) {
		return c.SHA, nil
	}
	if err != nil {
		return "", err
	}
	if c.Depth > 0 {
		if err := c.fetchRefs(ctx, 0, refs...); err != nil {
			return "", err
		}
	}
	if c.has(ctx, c.SHA) {
		return c.SHA, nil
	}
	return "", permanentError{fmt.Errorf("the commit %s is not in %s, and the server does not send it by its name", c.SHA, strings.Join(refs, ", "))}
}

// fetchRefs fetches refs with their history, of a depth of commits; 0 is all.
func (c *checkout) fetchRefs(ctx context.Context, depth int, refs ...string) error {
	args := []string{"fetch", "--force", "--no-write-commit-graph"}
	switch {
	case depth > 0:
		args = append(args, "--depth", strconv.Itoa(depth))
	case c.shallow():
		args = append(args, "--unshallow")
	}
	if c.store != "" {
		refs = c.store.mapped(refs)
	}
	if c.store != "" || depth > 0 && len(c.RefSpecs) == 0 {
		args = append(args, "--no-tags")
	}
	return c.git(ctx, append(append(args, c.remote), refs...)...)
}

// shallow reports whether the repository lacks a part of the history.
func (c *checkout) shallow() bool {
	dir := filepath.Join(c.tree, ".git")
	if c.store != "" {
		dir = c.tree
	}
	info, err := os.Stat(filepath.Join(dir, "shallow"))
	return err == nil && info.Size() > 0
}

// pullLFS replaces pointers by the files of Git LFS, without its hooks.
func (c *checkout) pullLFS(ctx context.Context) error {
	for _, s := range []setting{
		{"filter.lfs.clean", "git-lfs clean -- %f"},
		{"filter.lfs.smudge", "git-lfs smudge -- %f"},
		{"filter.lfs.process", "git-lfs filter-process"},
		{"filter.lfs.required", "true"},
	} { // for the later steps
		if err := c.git(ctx, "config", s.key, s.value); err != nil {
			return err
		}
	}
	return c.git(ctx, "lfs", "pull")
}

// updateSubmodules checks the submodules of the work tree out, one level after the other:
// what is in the place of the repository of a submodule is removed before.
func (c *checkout) updateSubmodules(ctx context.Context) error {
	paths, err := c.submodules(ctx)
	if err != nil || len(paths) == 0 {
		return err
	}
	for _, path := range paths {
		if err := os.RemoveAll(filepath.Join(path, ".git")); err != nil {
			return fmt.Errorf("clear a submodule: %w", err)
		}
	}
	args := []string{"submodule", "update", "--init", "--force", "--checkout"}
	if c.Depth > 0 {
		args = append(args, "--depth", strconv.Itoa(c.Depth))
	}
	if err := c.git(ctx, args...); err != nil {
		return err
	}
	for _, path := range paths {
		sub := *c
		sub.tree = path
		if _, err := os.Lstat(filepath.Join(path, ".git")); err != nil {
			continue // .gitmodules has no address for it
		}
		if c.LFS {
			if err := sub.pullLFS(ctx); err != nil {
				return err
			}
		}
		if c.Submodules == run.SubmodulesRecursive {
			if err := sub.updateSubmodules(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// submoduleMode is the mode of a submodule in the index.
const submoduleMode = "160000"

// submodules returns the directories of the submodules of the work tree.
func (c *checkout) submodules(ctx context.Context) ([]string, error) {
	var out bytes.Buffer
	cmd := c.command(ctx, "ls-files", "--stage", "-z")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var paths []string
	for entry := range strings.SplitSeq(out.String(), "\x00") {
		if description, path, ok := strings.Cut(entry, "\t"); ok && strings.HasPrefix(description, submoduleMode+" ") {
			paths = append(paths, filepath.Join(c.tree, filepath.FromSlash(path)))
		}
	}
	return paths, nil
}
