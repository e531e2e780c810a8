package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	// diskSize is the size in bytes of the sparse image file.
	diskSize = 512 << 20
	// shutdownRequest is EXT4_IOC_SHUTDOWN. Its flag shutdownNow prevents all
	// further writes, even those of the file system's journal.
	shutdownRequest = 0x8004587d
	shutdownNow     = 2
)

// Disk is an ext4 file system that can lose power. It writes back only synced
// data, because its commit interval is longer than any test.
type Disk struct {
	Dir   string // where it is mounted
	t     testing.TB
	image string
	cuts  int
}

// RequireDisk returns a new disk. Without root or loop devices the test is
// skipped, or fails if DROVER_REQUIRE names loop.
func RequireDisk(t testing.TB) *Disk {
	t.Helper()
	Use(t, "loop")
	const remedy = "run the tests as root, with e2fsprogs and mount installed, where there are loop devices"
	if os.Geteuid() != 0 {
		Missing(t, "loop", "not root", remedy)
	}
	dir := t.TempDir()
	d := &Disk{Dir: filepath.Join(dir, "disk"), t: t, image: filepath.Join(dir, "image-0")}
	require.NoError(t, os.Mkdir(d.Dir, 0o700))
	require.NoError(t, os.WriteFile(d.image, nil, 0o600))
	require.NoError(t, os.Truncate(d.image, diskSize))
	if why := output("mkfs.ext4", "-q", "-F", d.image); why != "" {
		Missing(t, "loop", why, remedy)
	}
	if why := d.mount(); why != "" {
		Missing(t, "loop", why, remedy)
	}
	t.Cleanup(func() {
		if unix.Unmount(d.Dir, 0) != nil {
			_ = unix.Unmount(d.Dir, unix.MNT_DETACH) // the kernel frees the loop device after its last use
		}
	})
	return d
}

// CutPower stops all writes to the disk at once. Programs that use the disk get
// I/O errors from then on. A sync during the call may succeed without effect, so a
// test must not rely on data that was acknowledged after the call began.
func (d *Disk) CutPower() {
	d.t.Helper()
	root, err := os.Open(d.Dir)
	require.NoError(d.t, err)
	defer func() { _ = root.Close() }()
	require.NoError(d.t, unix.IoctlSetPointerInt(int(root.Fd()), shutdownRequest, shutdownNow))
}

// RestorePower mounts the disk again with the data that it held when the power
// was cut. It mounts a copy of the image: a mount namespace of another test may
// still hold the old mount, and the kernel mounts an image only once.
func (d *Disk) RestorePower() {
	d.t.Helper()
	Await(d.t, func() (bool, string) {
		err := unix.Unmount(d.Dir, 0)
		return err == nil, "unmount: " + errorText(err)
	})
	d.cuts++
	was := d.image
	d.image = filepath.Join(filepath.Dir(was), "image-"+strconv.Itoa(d.cuts))
	require.Empty(d.t, output("cp", "--sparse=always", was, d.image))
	require.NoError(d.t, os.Remove(was))
	require.Empty(d.t, d.mount())
}

func (d *Disk) mount() (why string) {
	return output("mount", "-t", "ext4", "-o", "loop,commit=300", d.image, d.Dir)
}

// output runs a command and returns why it failed, "" if it succeeded.
func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err == nil {
		return ""
	}
	return strings.TrimSpace(name + ": " + err.Error() + ": " + string(out))
}
