package spec

import (
	"path"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// checkVolumes checks the volumes of a task.
func checkVolumes(l *faultList, task run.Path, t *run.TaskSpec) {
	p := task.Key("volumes")
	seen := make(map[string]bool, len(t.Volumes))
	var places []place
	shared, named := workingVolume(t), 0
	for i, v := range items(l, t.Volumes) {
		at := p.Index(i)
		clean := path.Clean(v.Path)
		switch {
		case v.Path == "":
			l.add(at.Key("path"), run.FaultRequired, "a volume has a path")
		case !path.IsAbs(v.Path) || clean == "/":
			l.add(at.Key("path"), run.FaultBadFormat, "%s is not an absolute path below /", quote(v.Path))
		case seen[clean]:
			l.add(at.Key("path"), run.FaultDuplicate, "there is another volume at %s", quote(clean))
		default:
			if err := run.CheckVolumePath(clean); err != nil && run.PersistentVolumes(t.Volumes) {
				l.add(at.Key("path"), run.FaultOverLimit, "%s", err)
			}
			if err := run.CheckVolumePlace(clean, t.Resources.GPUs > 0); err != nil && v.Name != "" {
				l.add(at.Key("path"), run.FaultBadValue, "%s", err)
			}
			places = append(places, place{at: at.Key("path"), dir: clean, persistent: v.Name != ""})
		}
		if v.Name != "" {
			named++
		}
		if clean == shared && v.ReadOnly {
			l.add(at.Key("read_only"), run.FaultContradiction, "the containers of the task share this volume as their working directory, and write to it")
		}
		seen[clean] = true
		checkText(l, at.Key("path"), v.Path)
		checkVolumeKind(l, at, v)
	}
	if named > run.MaxPersistentVolumes {
		l.add(p, run.FaultOverLimit, "%d persistent volumes are mounted; the limit is %d", named, run.MaxPersistentVolumes)
	}
	if shared != "" && !seen[shared] {
		if err := run.CheckVolumePath(shared); err != nil && named > 0 {
			l.add(task.Key("working_dir"), run.FaultOverLimit, "%s", err)
		}
		places = append(places, place{at: task.Key("working_dir"), dir: shared})
	}
	checkNesting(l, places)
}

// checkVolumeKind checks what a volume is. A name is one volume, however often it is mounted.
func checkVolumeKind(l *faultList, at run.Path, v run.Volume) {
	switch {
	case v.Tmpfs == nil && v.Name == "":
		l.add(at, run.FaultRequired, "a volume has tmpfs, for a file system in memory, or name, for a persistent volume")
	case v.Tmpfs != nil && v.Name != "":
		l.add(at.Key("name"), run.FaultContradiction, "a volume has either tmpfs or name")
	case v.Name != "":
		if err := run.CheckVolumeName(v.Name); err != nil {
			l.add(at.Key("name"), run.FaultBadFormat, "%s", err)
		}
	}
	if v.ReadOnly && v.Name == "" {
		l.add(at.Key("read_only"), run.FaultContradiction, "read_only is for persistent volumes: give the volume a name")
	}
	if v.Tmpfs != nil && v.Tmpfs.Size != "" {
		if _, err := run.ParseMemory(v.Tmpfs.Size); err != nil {
			l.add(at.Key("tmpfs").Key("size"), run.FaultBadFormat, "%s", err)
		}
	}
}

// workingVolume returns the cleaned working directory of a task if it is a volume, as other
// containers of the task use it; else "".
func workingVolume(t *run.TaskSpec) string {
	checksOut := slices.ContainsFunc(t.Steps, func(s run.Step) bool { return s.Checkout != nil }) // in a helper container
	switch {
	case !t.SharesWorkingDir() && !checksOut || !volumePath(t.WorkingDir):
		return ""
	case t.WorkingDir == "":
		return run.SharedWorkingDir
	}
	return path.Clean(t.WorkingDir)
}

// place is where a volume is mounted.
type place struct {
	at         run.Path
	dir        string // cleaned
	persistent bool
}

// checkNesting refuses a persistent volume that is inside of another volume, or has one
// inside. What is mounted inside of a persistent volume is mounted where an earlier task
// left a link, which may lead to the files of the task itself.
func checkNesting(l *faultList, places []place) {
	// Without this order, many volumes would take long. An outer one comes before all that
	// are inside of it, and they before others.
	slices.SortFunc(places, func(a, b place) int { return strings.Compare(a.dir+"/", b.dir+"/") })
	var around []place // the outermost first
	for _, inner := range places {
		for len(around) > 0 && !strings.HasPrefix(inner.dir, around[len(around)-1].dir+"/") {
			around = around[:len(around)-1]
		}
		if len(around) > 0 {
			switch outer := around[len(around)-1]; {
			case outer.persistent:
				l.add(inner.at, run.FaultContradiction,
					"%s is inside of the persistent volume at %s, where earlier tasks could have left a link in its place: mount one of them elsewhere", quote(inner.dir), quote(outer.dir))
				continue // so that what is inside of it is inside of the persistent one
			case inner.persistent:
				l.add(inner.at, run.FaultContradiction,
					"the persistent volume at %s is inside of the volume at %s: mount one of them elsewhere", quote(inner.dir), quote(outer.dir))
			}
		}
		around = append(around, inner)
	}
}
