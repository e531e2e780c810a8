// Package dockertest finds the Docker daemon for tests of the plugin.
package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

const ping = 10 * time.Second

// File is a program in an image.
type File struct{ Path, Source string }

// Require returns a client of the Docker daemon. If no daemon answers, it skips
// the test, or fails it if DROVER_REQUIRE names docker.
func Require(t testing.TB) *client.Client {
	t.Helper()
	if suites, limited := os.LookupEnv("DROVER_SUITES"); limited && !lists(suites, service) && !required() {
		t.Skipf("DROVER_SUITES=%s leaves out what needs %s", suites, service)
	}
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		missing(t, err.Error())
	}
	t.Cleanup(func() { _ = cli.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), ping)
	defer cancel()
	if _, err := cli.Ping(ctx); err != nil {
		missing(t, err.Error())
	}
	return cli
}

// service is what the variables DROVER_SUITES and DROVER_REQUIRE call the daemon.
const service = "docker"

func required() bool { return lists(os.Getenv("DROVER_REQUIRE"), service) }

func lists(names, name string) bool { return slices.Contains(strings.Split(names, ","), name) }

func missing(t testing.TB, why string) {
	t.Helper()
	if required() {
		t.Fatalf("docker is required but not available: %s", why)
	}
	t.Skipf("no docker (%s): start a daemon, or name one in DOCKER_HOST", why)
}

// Image returns the name of a local image with the host's static busybox and
// the given files. It is built once and kept by the daemon.
func Image(t testing.TB, cli *client.Client, files ...File) string {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		missing(t, "no static busybox for the image (Debian: busybox-static)")
	}
	layer, err := layer(append(files, File{Path: "bin/busybox", Source: busybox}))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(layer)
	name := "drover-test/fleeting:" + hex.EncodeToString(sum[:8])
	if _, err := cli.ImageInspect(t.Context(), name); err == nil {
		return name
	}
	answer, err := cli.ImageImport(t.Context(), image.ImportSource{Source: bytes.NewReader(layer), SourceName: "-"}, name,
		image.ImportOptions{Changes: []string{"ENV PATH=/bin"}})
	if err != nil {
		t.Fatalf("import an image: %v", err)
	}
	defer func() { _ = answer.Close() }()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		t.Fatalf("import an image: %v", err)
	}
	return name
}

func layer(files []File) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range []string{"bin/", "tmp/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o1777}); err != nil {
			return nil, fmt.Errorf("pack an image: %w", err)
		}
	}
	for _, applet := range []string{"sh", "sleep", "true", "cat"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}); err != nil {
			return nil, fmt.Errorf("pack an image: %w", err)
		}
	}
	for _, f := range files {
		text, err := os.ReadFile(f.Source)
		if err != nil {
			return nil, fmt.Errorf("pack an image: %w", err)
		}
		err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: 0o755, Size: int64(len(text))})
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			return nil, fmt.Errorf("pack an image: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack an image: %w", err)
	}
	return b.Bytes(), nil
}
