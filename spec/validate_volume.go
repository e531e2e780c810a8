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
	shared, lasting := workingVolume(t), 0
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
			if err := run.CheckVolumePath(clean); err != nil && run.LastingVolumes(t.Volumes) {
				l.add(at.Key("path"), run.FaultOverLimit, "%s", err)
			}
			if err := run.CheckVolumePlace(clean, t.Resources.GPUs > 0); err != nil && v.Lasting() {
				l.add(at.Key("path"), run.FaultBadValue, "%s", err)
			}
			places = append(places, place{at: at.Key("path"), dir: clean, lasting: lastingKind(v)})
		}
		if v.Lasting() {
			lasting++
		}
		if clean == shared && v.ReadOnly {
			l.add(at.Key("read_only"), run.FaultContradiction, "the containers of the task share this volume as their working directory, and write to it")
		}
		if shared != "" && clean == shared && v.HostPath != "" {
			l.add(at.Key("host_path"), run.FaultContradiction, "the containers of the task share the working directory as a volume: mount the path of the host elsewhere")
		}
		seen[clean] = true
		checkText(l, at.Key("path"), v.Path)
		checkVolumeKind(l, at, v)
	}
	checkCheckoutPlaces(l, task, t)
	if lasting > run.MaxLastingVolumes {
		l.add(p, run.FaultOverLimit, "%d persistent volumes and paths of the host are mounted; the limit is %d", lasting, run.MaxLastingVolumes)
	}
	if shared != "" && !seen[shared] {
		if err := run.CheckVolumePath(shared); err != nil && lasting > 0 {
			l.add(task.Key("working_dir"), run.FaultOverLimit, "%s", err)
		}
		places = append(places, place{at: task.Key("working_dir"), dir: shared})
	}
	checkNesting(l, places)
}

// checkVolumeKind checks what a volume is. A name is one volume, however often it is mounted.
func checkVolumeKind(l *faultList, at run.Path, v run.Volume) {
	switch {
	case v.Tmpfs == nil && !v.Lasting():
		l.add(at, run.FaultRequired, "a volume has tmpfs, for a file system in memory, name, for a persistent volume, or host_path, for a path of the host")
	case v.Tmpfs != nil && v.Name != "":
		l.add(at.Key("name"), run.FaultContradiction, "a volume has either tmpfs or name")
	case v.HostPath != "" && (v.Tmpfs != nil || v.Name != ""):
		l.add(at.Key("host_path"), run.FaultContradiction, "a volume has only one of tmpfs, name and host_path")
	case v.Name != "":
		if err := run.CheckVolumeName(v.Name); err != nil {
			l.add(at.Key("name"), run.FaultBadFormat, "%s", err)
		}
	case v.HostPath != "":
		checkOfHost(l, at.Key("host_path"), v.HostPath, run.CheckHostPath)
	}
	if v.ReadOnly && !v.Lasting() {
		l.add(at.Key("read_only"), run.FaultContradiction, "read_only is for persistent volumes and paths of the host: give the volume a name or a host_path")
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
	at      run.Path
	dir     string // cleaned
	lasting string // what it is if it is a lasting volume, else ""
}

func lastingKind(v run.Volume) string {
	switch {
	case v.Name != "":
		return "persistent volume"
	case v.HostPath != "":
		return "path of the host"
	}
	return ""
}

// checkNesting refuses a lasting volume that is inside of another volume, or has one inside.
// What is mounted inside of a lasting volume is mounted where an earlier task left a link,
// which may lead to the files of the task itself.
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
			case outer.lasting != "":
				l.add(inner.at, run.FaultContradiction,
					"%s is inside of the %s at %s, where earlier tasks could have left a link in its place: mount one of them elsewhere", quote(inner.dir), outer.lasting, quote(outer.dir))
				continue // so that what is inside of it is inside of the lasting one
			case inner.lasting != "":
				l.add(inner.at, run.FaultContradiction,
					"the %s at %s is inside of the volume at %s: mount one of them elsewhere", inner.lasting, quote(inner.dir), quote(outer.dir))
			}
		}
		around = append(around, inner)
	}
}
