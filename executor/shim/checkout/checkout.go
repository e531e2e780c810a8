// Package checkout checks out a git repository for a step, with the git of its
// container or host. It runs in a process of its own, as the user of the steps.
//
// Nothing of the repository, of the working directory or of the user's home directory
// is executed or read as configuration of git: no hooks, no file system monitor, no
// filters except those of Git LFS, no configuration of the user. An existing .git is
// never used: it may have been left by another step. The configuration of the system
// applies, for example for proxies and authorities.
//
// Credentials reach git through a credential helper for the host of the repository
// alone. They are in no URL, no argument and no file.
package checkout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

// Request describes a checkout.
type Request struct {
	run.Checkout
	// Dir is the working directory of the step, absolute. The work tree is Path below it.
	// It is created if it is missing.
	Dir string `json:"dir"`
	// Shared lets all users write to the files: steps in other containers have others.
	Shared bool `json:"shared,omitempty"`
	// Secret is the value of the credentials: a password, or user:password.
	Secret string `json:"secret,omitempty"`
	// Store is the directory of an object store with objects of the repository; "" is
	// none. See UpdateStore.
	Store string `json:"store,omitempty"`
}

// attempts is how often a checkout is attempted. The second attempt begins secondAfter the
// first failed, and the third thirdAfter the second.
const (
	attempts    = 3
	secondAfter = 2 * time.Second
	thirdAfter  = 8 * time.Second
)

func pauses() []time.Duration { return []time.Duration{secondAfter, thirdAfter} }

// defaultUser is the user of credentials without one. Servers accept any with a token.
const defaultUser = "git"

// Main is the process of a checkout step: it reads the request from stdin, and writes
// the output of git to stdout and stderr. It returns the exit code.
func Main(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	var r Request
	err := json.NewDecoder(stdin).Decode(&r)
	if r.Shared {
		clearUmask()
	}
	if err == nil {
		err = Run(ctx, r, os.Environ(), stdout, stderr)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "drover: checkout:", err)
		return 1
	}
	return 0
}

// Run checks the repository out. env are the variables of the step. Network errors are
// retried; before each further attempt the work tree is cleared.
func Run(ctx context.Context, r Request, env []string, stdout, stderr io.Writer) error {
	home, err := os.MkdirTemp("", "drover-git-")
	if err != nil {
		return fmt.Errorf("create a home directory for git: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	c := &checkout{Request: r, tree: filepath.Join(r.Dir, r.Path), home: home, remote: "origin", stdout: stdout, stderr: stderr}
	if c.env, err = c.environment(env, home); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if attempt > 1 {
			c.Store = ""
		}
		if err = c.prepare(ctx, attempt > 1 || r.Cleans()); err == nil {
			err = c.fetchAndCheckOut(ctx)
		}
		if err == nil || attempt == attempts || ctx.Err() != nil || isPermanent(err) {
			return err
		}
		wait := pauses()[attempt-1]
		_, _ = fmt.Fprintf(stderr, "drover: checkout: %s; attempt %d of %d begins after %s\n", err, attempt+1, attempts, wait)
		if err := retry.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// permanentError is an error that another attempt does not change.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func isPermanent(err error) bool {
	var p permanentError
	return errors.As(err, &p)
}

// checkout is one checkout.
type checkout struct {
	Request
	tree           string   // the directory of the work tree, or the repository of a store
	home           string   // the home directory of git
	remote         string   // what is fetched from
	store          storeKey // of the store that is updated; "" is none
	env            []string
	stdout, stderr io.Writer
}

// prepare makes an empty repository in the directory. With clear, all files there are
// removed before.
func (c *checkout) prepare(ctx context.Context, clearAll bool) error {
	if err := c.makeTree(); err != nil {
		return fmt.Errorf("create the directory: %w", err)
	}
	entries, err := os.ReadDir(c.tree)
	if err != nil {
		return fmt.Errorf("read the directory: %w", err)
	}
	for _, e := range entries {
		if clearAll || e.Name() == ".git" {
			if err := os.RemoveAll(filepath.Join(c.tree, e.Name())); err != nil {
				return fmt.Errorf("clear the directory: %w", err)
			}
		}
	}
	if err := c.git(ctx, "init", "--quiet", "--template=", "--object-format="+c.objectFormat(), "."); err != nil {
		return err
	}
	return c.git(ctx, "remote", "add", "origin", c.Repository)
}

// objectFormat returns the hash function of the repository.
func (c *checkout) objectFormat() string {
	if len(c.SHA) == sha256Digits {
		return "sha256"
	}
	return "sha1"
}

// makeTree creates the directory of the work tree. Symbolic links in its path below the
// working directory are removed: they could lead to files of others.
func (c *checkout) makeTree() error {
	dir := c.Dir
	for name := range strings.SplitSeq(filepath.Clean(c.Path), string(filepath.Separator)) {
		dir = filepath.Join(dir, name)
		if info, err := os.Lstat(dir); err == nil && info.Mode().Type() == fs.ModeSymlink && dir != filepath.Clean(c.Dir) {
			if err := os.Remove(dir); err != nil {
				return err //nolint:wrapcheck // it names the operation and the path
			}
		}
	}
	return os.MkdirAll(c.tree, 0o777) //nolint:wrapcheck // it names the path
}
