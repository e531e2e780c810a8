package checkout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/drover-run/drover/run"
)

// StoreRequest describes what an object store is to have. An object store is a directory
// that keeps the objects of one repository on the host of an executor. Executors fill it
// before a task, with the credentials of that task; checkouts copy objects from it.
type StoreRequest struct {
	run.Checkout
	// Dir is the directory of the store. It is created if it is missing.
	Dir string `json:"dir"`
	// MaxBytes is the size beyond which the store is emptied first; 0 is no bound.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// Secret is as in Request.
	Secret string `json:"secret,omitempty"`
}

// StoreResult is what a store has after an update.
type StoreResult struct {
	Bytes int64 `json:"bytes"` // the size of its files
}

// StoreCommand is the command of drover-shim that updates a store.
const StoreCommand = "git-store"

const (
	storeObjects  = "repository.git" // the bare repository of a store
	storeLock     = "lock"
	snapshotLimit = 64 << 20 // bytes of a snapshot
	storeRefs     = "refs/drover/"
	storeDepth    = "depth" // the greatest depth that was asked for
	lockPoll      = 50 * time.Millisecond
	// maxPacks is how many packs a store may have: each fetch adds one.
	maxPacks = 50
)

// snapshot is what a store has for one request. Its file is replaced at once, so a
// checkout that reads the store during an update sees refs whose objects are there.
type snapshot struct {
	Refs    map[string]string `json:"refs"` // names of commits by refs below storeRefs
	Shallow []string          `json:"shallow,omitempty"`
}

// MainStore is the process that updates a store: it reads the request from stdin, and
// writes the result to stdout. It returns the exit code. SIGTERM ends the update.
func MainStore(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var r StoreRequest
	err := json.NewDecoder(stdin).Decode(&r)
	if err == nil {
		var result StoreResult
		if result, err = UpdateStore(ctx, r, os.Environ(), stderr); err == nil {
			err = json.NewEncoder(stdout).Encode(result)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "drover: object store:", err)
		return 1
	}
	return 0
}

// UpdateStore fetches what a checkout needs into a store. Only one update of a store runs
// at once, in all processes. A store is only ever read as objects of git: its
// configuration is written again before each update.
func UpdateStore(ctx context.Context, r StoreRequest, env []string, stderr io.Writer) (StoreResult, error) {
	if err := makeDir(r.Dir); err != nil {
		return StoreResult{}, err
	}
	lock := flock.New(filepath.Join(r.Dir, storeLock))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return StoreResult{}, fmt.Errorf("lock the store: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := removeLinks(r.Dir); err != nil {
		return StoreResult{}, fmt.Errorf("clean the store: %w", err)
	}
	home, err := os.MkdirTemp("", "drover-git-")
	if err != nil {
		return StoreResult{}, fmt.Errorf("create a home directory for git: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	c := &checkout{
		Request: Request{Checkout: r.Checkout, Secret: r.Secret},
		tree:    filepath.Join(r.Dir, storeObjects), home: home, remote: r.Repository, stdout: io.Discard, stderr: stderr,
	}
	if c.env, err = c.environment(env, home); err != nil {
		return StoreResult{}, err
	}
	if err := c.prepareStore(ctx, r); err != nil {
		return StoreResult{}, err
	}
	c.store = newStoreKey(r.Checkout)
	if c.Depth, err = c.depthOfStore(r); err != nil {
		return StoreResult{}, err
	}
	commit, err := c.fetch(ctx)
	if err == nil && c.SHA != "" {
		err = c.git(ctx, "update-ref", c.store.refs()+"sha", commit)
	}
	if err != nil {
		if ctx.Err() == nil && !isPermanent(err) && c.git(ctx, "fsck", "--connectivity-only", "--no-dangling", "--no-progress") != nil {
			_ = os.RemoveAll(c.tree) // it is damaged: the next update begins from nothing
		}
		return StoreResult{}, err
	}
	if err := c.writeSnapshot(ctx, r.Dir); err != nil {
		return StoreResult{}, err
	}
	if packs, _ := filepath.Glob(filepath.Join(c.tree, "objects", "pack", "*.pack")); len(packs) > maxPacks {
		if err := c.git(ctx, "repack", "-a", "-d", "-k", "-q"); err != nil {
			return StoreResult{}, err
		}
	}
	size, err := sizeOf(r.Dir)
	return StoreResult{Bytes: size}, err
}

// prepareStore makes a bare repository with a new configuration around the objects.
func (c *checkout) prepareStore(ctx context.Context, r StoreRequest) error {
	if size, err := sizeOf(r.Dir); err != nil || r.MaxBytes > 0 && size > r.MaxBytes {
		if err := os.RemoveAll(c.tree); err != nil {
			return fmt.Errorf("empty the store: %w", err)
		}
	}
	if err := makeDir(c.tree); err != nil {
		return err
	}
	root, err := os.OpenRoot(c.tree)
	if err != nil {
		return fmt.Errorf("clean the store: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := cleanStore(root); err != nil {
		return fmt.Errorf("clean the store: %w", err)
	}
	return c.git(ctx, "init", "--quiet", "--bare", "--template=", "--object-format="+c.objectFormat(), ".")
}

// makeDir creates a directory of a store, also in place of a link that would lead out of it.
func makeDir(dir string) error {
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		if err := os.Remove(dir); err != nil {
			return fmt.Errorf("clean the store: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the store: %w", err)
	}
	return nil
}

// removeLinks removes links in place of the files of a store: they would be written through.
func removeLinks(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// cleanStore removes what is not objects or refs: other files could configure git, or lead
// it to another repository. It also removes what an update left that was killed. A link that
// leads out of the store is not followed.
func cleanStore(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		switch name := e.Name(); {
		case (name == "objects" || name == "refs") && e.IsDir(), (name == "packed-refs" || name == "shallow") && e.Type().IsRegular():
		default:
			err = errors.Join(err, root.RemoveAll(name))
		}
	}
	err = errors.Join(err, root.RemoveAll("objects/info"))
	return errors.Join(err, fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(entry.Name(), ".lock") || strings.HasPrefix(entry.Name(), "tmp_")) {
			err = root.RemoveAll(path)
		}
		return err
	}))
}

// depthOfStore returns the depth for a fetch into a store, which never gets shallower:
// what it has would be fetched again.
func (c *checkout) depthOfStore(r StoreRequest) (int, error) {
	file := filepath.Join(r.Dir, storeDepth)
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read the depth of the store: %w", err)
	}
	before, known := 0, false
	if _, err := os.Stat(filepath.Join(c.tree, "refs", "drover")); err == nil {
		before, err = strconv.Atoi(strings.TrimSpace(string(text)))
		known = err == nil
	}
	depth := r.Depth
	if known && (before == 0 || depth > 0 && before > depth) {
		depth = before
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(depth)), 0o644); err != nil {
		return 0, fmt.Errorf("write the depth of the store: %w", err)
	}
	return depth, nil
}

// sizeOf returns the size of the files of a directory.
func sizeOf(dir string) (int64, error) {
	var size int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := entry.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure the store: %w", err)
	}
	return size, nil
}

// storeKey identifies what a checkout fetches, apart from its depth and commit: requests
// with the same key share the refs of a store.
type storeKey string

func newStoreKey(c run.Checkout) storeKey {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{c.Ref}, c.RefSpecs...), "\n")))
	return storeKey(hex.EncodeToString(sum[:8]))
}

func (k storeKey) refs() string { return storeRefs + string(k) + "/" }

func (k storeKey) file() string { return "snapshot-" + string(k) + ".json" }

// mapped returns refspecs whose destinations are refs of the store.
func (k storeKey) mapped(refs []string) []string {
	out := make([]string, 0, len(refs))
	for i, spec := range refs {
		source, _, _ := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
		to := fmt.Sprintf("%s%d", k.refs(), i)
		if strings.Contains(source, "*") {
			to += "/*"
		}
		out = append(out, "+"+source+":"+to)
	}
	return out
}

// writeSnapshot records the refs of the request.
func (c *checkout) writeSnapshot(ctx context.Context, dir string) error {
	s := snapshot{Refs: make(map[string]string)}
	shallow, err := os.ReadFile(filepath.Join(c.tree, "shallow"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the bounds of the history: %w", err)
	}
	s.Shallow = strings.Fields(string(shallow))
	var out bytes.Buffer
	cmd := c.command(ctx, "for-each-ref", "--format=%(objectname) %(refname)", c.store.refs())
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git for-each-ref: %w", err)
	}
	for line := range strings.Lines(out.String()) {
		if commit, ref, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			s.Refs[ref] = commit
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the refs: %w", err)
	}
	file := filepath.Join(dir, c.store.file())
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		return fmt.Errorf("write the refs: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("write the refs: %w", err)
	}
	return nil
}

var (
	objectNamePattern = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
	storeRefPattern   = regexp.MustCompile(`^refs/drover/[0-9a-f]+/[^\x00-\x20\x7f~^:?*\[\\]+$`)
)

// copyFromStore copies the objects of the request from the store. It uses no file of the
// store but the snapshot and the objects, and git checks the names of all objects: what
// a process has changed in a store on its host cannot change what is checked out.
func (c *checkout) copyFromStore(ctx context.Context) error {
	key := newStoreKey(c.Checkout)
	file, err := os.Open(filepath.Join(c.Store, key.file()))
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	defer func() { _ = file.Close() }()
	var s snapshot
	if err := json.NewDecoder(io.LimitReader(file, snapshotLimit)).Decode(&s); err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	var packed strings.Builder
	for _, ref := range slices.Sorted(maps.Keys(s.Refs)) {
		if !storeRefPattern.MatchString(ref) || !objectNamePattern.MatchString(s.Refs[ref]) {
			return fmt.Errorf("read the store: it has the ref %q", ref)
		}
		packed.WriteString(s.Refs[ref] + " " + ref + "\n")
	}
	for _, name := range s.Shallow {
		if !objectNamePattern.MatchString(name) {
			return fmt.Errorf("read the store: it has the bound %q", name)
		}
	}
	// A repository of this process, with the objects of the store.
	outer := *c
	outer.tree = filepath.Join(c.home, "store.git")
	if err := os.Mkdir(outer.tree, 0o700); err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	if err := outer.git(ctx, "init", "--quiet", "--bare", "--template=", "--object-format="+c.objectFormat(), "."); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"objects/info/alternates": filepath.Join(c.Store, storeObjects, "objects") + "\n",
		"packed-refs":             packed.String(),
		"shallow":                 strings.Join(append(s.Shallow, ""), "\n"),
	} {
		if text == "" {
			continue
		}
		path := filepath.Join(outer.tree, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("read the store: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("read the store: %w", err)
		}
	}
	args := []string{"fetch", "--force", "--no-write-commit-graph", "--no-tags", "--update-shallow"}
	if c.Depth > 0 {
		args = append(args, "--depth", strconv.Itoa(c.Depth))
	}
	return c.git(ctx, append(args, outer.tree, "+"+key.refs()+"*:"+key.refs()+"*")...)
}

// forgetStore removes the refs that copyFromStore made.
func (c *checkout) forgetStore(ctx context.Context) error {
	var out bytes.Buffer
	cmd := c.command(ctx, "for-each-ref", "--format=delete %(refname)", storeRefs)
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git for-each-ref: %w", err)
	}
	cmd = c.command(ctx, "update-ref", "--stdin")
	cmd.Stdin = &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git update-ref: %w", err)
	}
	return nil
}
