package testenv

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/gofrs/flock"
	"github.com/stretchr/testify/require"
)

// busyboxLayout is part of the test image's tag. Increase it when the output of
// busyboxTar for the same binary changes.
const busyboxLayout = 1

// dockerPing bounds the check for a daemon.
const dockerPing = 10 * time.Second

// RequireDocker returns a client of the Docker daemon that DOCKER_HOST names, or
// of the one on the default socket if it is not set. If no daemon answers, the test
// is skipped, or fails if DROVER_REQUIRE names docker.
func RequireDocker(t testing.TB) *client.Client {
	t.Helper()
	Use(t, "docker")
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		Missing(t, "docker", err.Error(), "correct DOCKER_HOST")
	}
	t.Cleanup(func() { _ = cli.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), dockerPing)
	defer cancel()
	if _, err := cli.Ping(ctx); err != nil {
		Missing(t, "docker", err.Error(), "start a daemon, or name one in DOCKER_HOST")
	}
	return cli
}

// RequireBridge skips the test if the daemon was started without bridge networks, as in a
// sandbox that has none.
func RequireBridge(t testing.TB, cli *client.Client) {
	t.Helper()
	found, err := cli.NetworkList(t.Context(), network.ListOptions{})
	if err != nil {
		t.Fatalf("list the networks of the daemon: %v", err)
	}
	if !slices.ContainsFunc(found, func(n network.Summary) bool { return n.Driver == "bridge" }) {
		HostLacks(t, "bridge networks of the docker daemon, which was started with --bridge=none")
	}
}

// BusyboxImage returns the name of a small local image: a static busybox with a
// link for each of its applets, and a user "tester" (1000:1000). Nothing is
// downloaded for it. It is built once, and the daemon keeps it.
func BusyboxImage(t testing.TB, cli *client.Client) string {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		Missing(t, "docker", "no busybox for an image", "install a static busybox (Debian: busybox-static)")
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read busybox: %v", err)
	}
	sum := sha256.Sum256(binary)
	name := fmt.Sprintf("drover-test/busybox:%d-%s", busyboxLayout, hex.EncodeToString(sum[:6]))

	// Test binaries run in parallel; the first one builds the image.
	lock := flock.New(filepath.Join(sharedDir(t), "busybox.lock"))
	if err := lock.Lock(); err != nil {
		t.Fatalf("lock the build of the busybox image: %v", err)
	}
	defer func() { _ = lock.Unlock() }()
	if _, err := cli.ImageInspect(t.Context(), name); err == nil {
		return name
	}
	layer, err := BusyboxLayer()
	if err != nil {
		t.Fatal(err)
	}
	repository, tag, _ := strings.Cut(name, ":")
	answer, err := cli.ImageImport(t.Context(), image.ImportSource{Source: bytes.NewReader(layer), SourceName: "-"}, repository,
		image.ImportOptions{Tag: tag, Changes: []string{"ENV PATH=/bin", `CMD ["/bin/sh"]`}})
	if err != nil {
		t.Fatalf("import the busybox image: %v", err)
	}
	defer func() { _ = answer.Close() }()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		t.Fatalf("import the busybox image: %v", err)
	}
	if _, err := cli.ImageInspect(t.Context(), name); err != nil {
		t.Fatalf("the busybox image was not imported: %v", err)
	}
	return name
}

// ImageVariant returns the name of a copy of an image with changes: instructions
// of a Dockerfile, such as "EXPOSE 80". The copy is removed after the test.
func ImageVariant(t testing.TB, cli *client.Client, base string, changes ...string) string {
	t.Helper()
	created, err := cli.ContainerCreate(t.Context(), &container.Config{Image: base}, nil, nil, nil, "")
	require.NoError(t, err)
	name := "drover-test/variant:" + strings.ToLower(rand.Text())
	_, err = cli.ContainerCommit(t.Context(), created.ID, container.CommitOptions{Reference: name, Changes: changes})
	require.NoError(t, err)
	require.NoError(t, cli.ContainerRemove(t.Context(), created.ID, container.RemoveOptions{}))
	t.Cleanup(func() {
		_, err := cli.ImageRemove(context.WithoutCancel(t.Context()), name, image.RemoveOptions{Force: true})
		require.NoError(t, err)
	})
	return name
}

// BusyboxLayer returns the file system of the busybox images as a tar archive,
// with the host's static busybox.
func BusyboxLayer() ([]byte, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("find a static busybox (Debian: busybox-static): %w", err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read busybox: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	applets, err := exec.CommandContext(ctx, path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the applets of busybox: %w", err)
	}
	layer, err := busyboxTar(binary, strings.Fields(string(applets)))
	if err != nil {
		return nil, fmt.Errorf("pack busybox: %w", err)
	}
	return layer, nil
}

func busyboxTar(binary []byte, applets []string) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	var fault error
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			fault = errors.Join(fault, err)
			return
		}
		if _, err := w.Write(content); err != nil {
			fault = errors.Join(fault, err)
		}
	}
	for _, dir := range []string{"bin/", "dev/", "etc/", "proc/", "sys/", "root/", "home/"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeDir, Name: "home/tester/", Mode: 0o755, Uid: 1000, Gid: 1000}, nil)
	add(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil)
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644},
		[]byte("root:x:0:0:root:/root:/bin/sh\ntester:x:1000:1000:tester:/home/tester:/bin/sh\nother:x:65534:65534:other:/:/bin/sh\n"))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644},
		[]byte("root:x:0:\ntester:x:1000:\nextra:x:2000:tester\nother:x:65534:\n"))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, binary)
	for _, applet := range applets {
		if applet != "busybox" {
			add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	if err := w.Close(); err != nil {
		fault = errors.Join(fault, err)
	}
	return buffer.Bytes(), fault
}
