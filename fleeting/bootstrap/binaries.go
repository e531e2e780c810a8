package bootstrap

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// errNoBinary means that there is no worker for a kind of host.
var errNoBinary = errors.New("no worker")

// Binaries finds the worker for a kind of host. It is safe for concurrent use.
type Binaries struct {
	// Dir holds directories named OS-ARCH in Go's terms, such as linux-arm64,
	// each with drover-agent or drover, and drover-shim (.exe for windows); "":
	// none.
	Dir string
	// Drover and Shim are the files for hosts like this one, if Dir has none
	// for them. Drover is drover-agent or drover. "" for Drover: there are none.
	Drover, Shim string

	mu      sync.Mutex
	digests map[string]cachedDigest
}

// cachedDigest is a cached digest of a file.
type cachedDigest struct {
	modified time.Time
	size     int64
	sum      string
}

// program is a file to upload.
type program struct {
	path   string // on this host
	name   string // on the target host
	digest string
}

// AgentBeside returns drover-agent in the directory of an executable, or the executable if
// there is none.
func AgentBeside(executable string) string {
	agent := filepath.Join(filepath.Dir(executable), "drover-agent")
	if _, err := os.Stat(agent); err != nil {
		return executable
	}
	return agent
}

// find returns the worker for a kind of host.
func (b *Binaries) find(system, arch string) ([]program, error) {
	suffix := ""
	if system == windows {
		suffix = ".exe"
	}
	found := []program{{name: "drover-agent" + suffix}, {name: "drover-shim" + suffix}}
	kind := system + "-" + arch
	beside := b.Dir != ""
	if beside {
		_, err := os.Stat(filepath.Join(b.Dir, kind))
		beside = !errors.Is(err, os.ErrNotExist)
	}
	switch {
	case beside:
		// The agent is a fifth of the size, and is all that an executor needs.
		if _, err := os.Stat(filepath.Join(b.Dir, kind, found[0].name)); errors.Is(err, os.ErrNotExist) {
			found[0].name = "drover" + suffix
		}
		for i := range found {
			found[i].path = filepath.Join(b.Dir, kind, found[i].name)
		}
	case system == runtime.GOOS && arch == runtime.GOARCH && b.Drover != "":
		if filepath.Base(b.Drover) != found[0].name {
			found[0].name = "drover" + suffix
		}
		found[0].path, found[1].path = b.Drover, b.Shim
	case b.Dir == "":
		return nil, fmt.Errorf("%w for %s/%s, and no directory of binaries for other systems is configured", errNoBinary, system, arch)
	default:
		return nil, fmt.Errorf("%w for %s/%s: %s is missing", errNoBinary, system, arch, filepath.Join(b.Dir, kind))
	}
	for i := range found {
		var err error
		if found[i].digest, err = b.digest(found[i].path); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// digest returns the SHA-256 of a file. It caches the result until the file
// changes.
func (b *Binaries) digest(path string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open the worker: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("open the worker: %w", err)
	}
	if known, ok := b.digests[path]; ok && known.size == info.Size() && known.modified.Equal(info.ModTime()) {
		return known.sum, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("read the worker: %w", err)
	}
	if b.digests == nil {
		b.digests = make(map[string]cachedDigest)
	}
	known := cachedDigest{modified: info.ModTime(), size: info.Size(), sum: hex.EncodeToString(hash.Sum(nil))}
	b.digests[path] = known
	return known.sum, nil
}
