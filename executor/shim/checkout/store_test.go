//go:build unix

package checkout_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim/checkout"
	"github.com/drover-run/drover/run"
)

// largeRepository creates a repository of n commits on main, each with a file of random
// bytes.
func (s *server) largeRepository(name string, n, size int) {
	s.Helper()
	s.repository(name, 1)
	s.add(name, "main", n, size)
}

// add adds n commits with a file of random bytes to a branch.
func (s *server) add(name, branch string, n, size int) {
	s.Helper()
	work := filepath.Join(s.TempDir(), "more")
	s.git(s.dir, "clone", "--quiet", filepath.Join(s.dir, name), work)
	for i := range n {
		content := make([]byte, size)
		_, _ = rand.Read(content)
		require.NoError(s, os.WriteFile(filepath.Join(work, fmt.Sprintf("file%d", i%5)), content, 0o600))
		s.git(work, "add", ".")
		s.git(work, "commit", "--quiet", "-m", fmt.Sprint("more ", i))
	}
	s.git(work, "push", "--quiet", "origin", "HEAD:"+branch)
}

// sent returns how many bytes the server sends during a call.
func (s *server) sent(call func()) int64 {
	before := s.bytes.Load()
	call()
	return s.bytes.Load() - before
}

func (s *server) update(r checkout.StoreRequest) (checkout.StoreResult, string, error) {
	var stderr bytes.Buffer
	result, err := checkout.UpdateStore(s.Context(), r, os.Environ(), &stderr)
	return result, stderr.String(), err
}

// reuse updates the store and checks out with it, in a new directory, which it returns.
func (s *server) reuse(store string, c run.Checkout) string {
	s.Helper()
	_, out, err := s.update(checkout.StoreRequest{Checkout: c, Dir: store})
	require.NoError(s, err, out)
	dir := s.TempDir()
	out, err = s.attempt(checkout.Request{Checkout: c, Dir: dir, Store: store})
	require.NoError(s, err, out)
	require.NotContains(s, out, "all objects come from the repository")
	require.Empty(s, s.git(dir, "for-each-ref", "refs/drover"))
	require.Empty(s, s.git(dir, "status", "--porcelain"))
	s.git(dir, "fsck", "--strict")
	return dir
}

func TestUpdateStore(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	s.largeRepository("repo", 30, 100_000)
	commits := s.git(filepath.Join(s.dir, "repo"), "rev-list", "main")
	third := commits[2*41 : 2*41+40]
	all := run.Checkout{Repository: s.url + "/repo"}
	recent, sha := all, all
	recent.Depth, recent.Ref = 5, "main"
	sha.SHA, sha.Ref, sha.Depth = third, "main", 1
	wild := all
	wild.RefSpecs, wild.Ref = []string{"+refs/heads/*:refs/remotes/origin/*"}, "main"

	for _, c := range []struct {
		name     string
		checkout run.Checkout
		commits  int
	}{{"all", all, 31}, {"a depth", recent, 5}, {"a commit beyond the depth", sha, 1}, {"refspecs", wild, 31}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &server{TB: t, dir: s.dir, url: s.url}
			store := filepath.Join(t.TempDir(), "store")
			s.count(c.commits, s.reuse(store, c.checkout))
			s.count(c.commits, s.reuse(store, c.checkout))
			// The store has what others need too, with any history.
			s.count(31, s.reuse(store, all))
			s.count(5, s.reuse(store, recent))
			s.count(1, s.reuse(store, sha))
			s.count(31, s.reuse(store, wild))
		})
	}
}

func (s *server) count(commits int, dir string) {
	s.Helper()
	require.Equal(s, fmt.Sprint(commits), s.git(dir, "rev-list", "--count", "HEAD"))
}

// TestUpdateStore_bytes compares what the server sends: a second checkout, also of a
// newer commit, costs less than a tenth of the first.
func TestUpdateStore_bytes(t *testing.T) {
	t.Parallel()
	for name, depth := range map[string]int{"all": 0, "a depth": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, "")
			s.largeRepository("repo", 60, 100_000)
			c := run.Checkout{Repository: s.url + "/repo", Ref: "main", Depth: depth, Reuse: true}
			store := filepath.Join(t.TempDir(), "store")
			first := s.sent(func() { s.reuse(store, c) })
			again := s.sent(func() { s.reuse(store, c) })
			s.add("repo", "main", 1, 1000)
			newer := s.sent(func() { s.reuse(store, c) })
			s.add("repo", "topic", 1, 1000)
			c.Ref = "topic"
			branch := s.sent(func() { s.reuse(store, c) })
			t.Logf("the server sent %d bytes for the first checkout, %d for a second, %d for a newer commit, %d for a branch", first, again, newer, branch)
			require.Less(t, again*10, first)
			require.Less(t, newer*10, first)
			require.Less(t, branch*10, first)
		})
	}
}

// TestUpdateStore_credentials tries to reach the objects of a store without the password
// of its repository.
func TestUpdateStore_credentials(t *testing.T) {
	t.Parallel()
	password := rand.Text()
	s := newServer(t, "deploy:"+password)
	s.repository("repo", 2)
	c := run.Checkout{Repository: s.url + "/repo"}
	store := filepath.Join(t.TempDir(), "store")
	_, out, err := s.update(checkout.StoreRequest{Checkout: c, Dir: store, Secret: "deploy:" + password})
	require.NoError(t, err, out)
	_, out, err = s.update(checkout.StoreRequest{Checkout: c, Dir: store})
	require.Error(t, err, out)
	out, err = s.attempt(checkout.Request{Checkout: c, Dir: t.TempDir(), Store: store})
	require.Error(t, err, out)
	s.searchFor(password, store)
}

// TestUpdateStore_damage changes a store as a process of the same user could: the
// checkout has the same result.
func TestUpdateStore_damage(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	s.largeRepository("repo", 10, 10_000)
	c := run.Checkout{Repository: s.url + "/repo", Ref: "main"}
	for name, damage := range map[string]string{
		"no snapshot":         `rm snapshot-*.json`,
		"no JSON":             `for f in snapshot-*; do echo x > $f; done`,
		"a ref with an error": `for f in snapshot-*; do echo '{"refs": {"../x": "y"}}' > $f; done`,
		"no objects":          `rm -rf repository.git/objects`,
		"cut packs":           `for f in repository.git/objects/pack/*.pack; do chmod +w $f; head -c 1000 $f > x; cat x > $f; done`,
		"a forged object": `cd repository.git
			mv objects/pack/*.pack ../pack
			rm -f objects/pack/*
			git unpack-objects -q < ../pack
			good=$(git rev-parse "$(git for-each-ref --format='%(objectname)' | head -1):number")
			bad=$(echo forged | git hash-object -w --stdin)
			cp -f "objects/$(echo $bad | cut -c1-2)/$(echo $bad | cut -c3-)" "objects/$(echo $good | cut -c1-2)/$(echo $good | cut -c3-)"`,
		"locks": `touch repository.git/shallow.lock repository.git/HEAD.lock repository.git/objects/pack/tmp_pack_x`,
		"configuration": `cat > repository.git/config <<'END'
[core]
	repositoryformatversion = 0
	bare = true
	fsmonitor = PROOF
	hooksPath = .
	alternateRefsCommand = PROOF
[uploadpack]
	packObjectsHook = PROOF
[remote "x"]
	promisor = true
	url = "ext::PROOF"
	uploadpack = PROOF
END
			mkdir -p repository.git/hooks
			printf '#!/bin/sh\necho hook >> PROOF.out\n' > repository.git/hooks/reference-transaction
			chmod +x repository.git/hooks/reference-transaction`,
		"links": `mkdir other
			mv repository.git/objects other/objects
			ln -s "$PWD/other/objects" repository.git/objects
			ln -s "$PWD/other" repository.git/hooks`,
		"files in place of directories": `rm -rf repository.git/refs repository.git/packed-refs
			touch repository.git/refs
			mkdir repository.git/packed-refs`,
		"a link in place of the store": `rm -rf * && cd .. && rmdir store && mkdir PROOF.d && echo precious > PROOF.d/precious && ln -s PROOF.d store`,
		"a link in place of the repository": `mkdir PROOF.d && echo precious > PROOF.d/precious
			rm -rf repository.git && ln -s PROOF.d repository.git`,
		"links in place of files": `mkdir PROOF.d && echo precious > PROOF.d/precious
			for f in depth snapshot-*; do ln -sf PROOF.d/precious "$f"; ln -sf PROOF.d/precious "$f.new"; done`,
		"a repository within": `git init -q --bare repository.git/.git
			cd repository.git/.git && echo "$PWD/../objects" > objects/info/alternates && git config core.alternateRefsCommand "echo within >> PROOF.out; true"`,
		"a common directory": `git init -q --bare other.git && git -C other.git config core.alternateRefsCommand "echo common >> PROOF.out; true"
			echo "$PWD/repository.git/objects" > other.git/objects/info/alternates
			echo "$PWD/other.git" > repository.git/commondir`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{TB: t, dir: s.dir, url: s.url}
			store := filepath.Join(t.TempDir(), "store")
			s.count(11, s.reuse(store, c))
			proof := filepath.Join(t.TempDir(), "executed")
			s.shell(store, damage, proof)
			for range 2 { // before and after an update, which may fail
				dir := t.TempDir()
				out, err := s.attempt(checkout.Request{Checkout: c, Dir: dir, Store: store})
				require.NoError(t, err, out)
				s.count(11, dir)
				require.Equal(t, "0", s.number(dir))
				s.git(dir, "fsck", "--strict")
				_, _, _ = s.update(checkout.StoreRequest{Checkout: c, Dir: store})
			}
			content, err := os.ReadFile(proof + ".out")
			require.ErrorIs(t, err, os.ErrNotExist, "executed: %s", content)
			if entries, err := os.ReadDir(proof + ".d"); err == nil { // what a link leads to
				require.Len(t, entries, 1)
				content, err := os.ReadFile(filepath.Join(proof+".d", "precious"))
				require.NoError(t, err)
				require.Equal(t, "precious\n", string(content))
			}
		})
	}
}

// TestUpdateStore_size empties a store that is too large, and bounds the number of packs.
func TestUpdateStore_size(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	s.largeRepository("repo", 2, 100_000)
	c := run.Checkout{Repository: s.url + "/repo"}
	r := checkout.StoreRequest{Checkout: c, Dir: filepath.Join(t.TempDir(), "store"), MaxBytes: 1000}
	result, out, err := s.update(r)
	require.NoError(t, err, out)
	require.Greater(t, result.Bytes, int64(200_000))
	require.Less(t, result.Bytes, int64(250_000))
	marker := filepath.Join(r.Dir, "repository.git", "marker")
	require.NoError(t, os.WriteFile(marker, nil, 0o600))
	again, out, err := s.update(r)
	require.NoError(t, err, out)
	require.InDelta(t, result.Bytes, again.Bytes, 10_000)
	require.NoFileExists(t, marker)
}
