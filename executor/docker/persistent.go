package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"

	"github.com/docker/docker/api/types/mount"

	"github.com/drover-run/drover/run"
)

// persistentHash is how many bytes of the hash are in the name of a persistent volume.
const persistentHash = 16

// persistentMount returns the mount of a persistent volume. The daemon creates one that does
// not exist, and leaves it empty: to copy what the image has takes a time in which another
// task would see a part of it. A volume belongs to an executor, a scope and a name: tasks that
// trust each other less, and other installations on the host, find other volumes. Nothing of
// the driver removes it: it has no label of a task.
func persistentMount(o *Options, scope string, v run.Volume) mount.Mount {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", o.ExecutorID, scope, v.Name))
	return mount.Mount{
		Type: mount.TypeVolume, Source: o.Prefix + "-volume-" + hex.EncodeToString(sum[:persistentHash]),
		Target: path.Clean(v.Path), ReadOnly: v.ReadOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: map[string]string{
			o.label("volume"): v.Name, o.label("scope"): scope, o.label("executor"): o.ExecutorID, o.label("role"): roleVolume,
		}},
	}
}
