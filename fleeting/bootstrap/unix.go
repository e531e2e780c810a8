package bootstrap

import (
	"path"
	"strings"
)

// startedOutput is the output of a start command that started the service.
const startedOutput = "started"

// tempMark separates the executor's id from the rest of a temporary file name;
// no id contains it.
const tempMark = "~"

// unix is a host with a POSIX shell: Linux and macOS. Its scripts use only
// commands that busybox has.
type unix struct{}

var _ system = unix{}

// line does not rely on the login shell, which may not be a POSIX shell.
func (unix) line(script string, sudo bool) string {
	line := "/bin/sh -c " + quote(script)
	if sudo {
		line = "sudo -n -- " + line
	}
	return line
}

// quote quotes a text as one word for any shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func (unix) join(elements ...string) string { return path.Join(elements...) }

func (unix) probe() string {
	return `echo "os=$(uname -s)"; echo "arch=$(uname -m)"; echo "uid=$(id -u)"; echo "home=$HOME"
[ "$(id -u)" = 0 ] && echo root=true
[ -d /run/systemd/system ] && command -v systemctl > /dev/null && echo systemd=true
exit 0`
}

// sum is a shell function that prints the SHA-256 of a file.
const sum = `sum() {
  if command -v sha256sum > /dev/null; then sha256sum < "$1"
  elif command -v shasum > /dev/null; then shasum -a 256 < "$1"
  else openssl dgst -sha256 -r < "$1"; fi | cut -c 1-64
}
`

func (unix) digest(path string) string {
	return sum + "[ ! -f " + quote(path) + " ] || sum " + quote(path)
}

func (unix) put(f remoteFile) string {
	return sum + `set -e
umask 077
mkdir -p ` + quote(f.dir) + `
cd ` + quote(f.dir) + `
for old in ` + quote(tempPrefix(f)) + `*; do [ ! -f "$old" ] || rm -f "$old"; done
cat > ` + f.temp + `
got=$(sum ` + f.temp + `)
if [ "$got" != ` + f.digest + ` ]; then
  rm -f ` + f.temp + `
  echo "it arrived as $got, not ` + f.digest + `" >&2
  exit 65
fi
chmod ` + f.mode + ` ` + f.temp + `
mv -f ` + f.temp + ` ` + quote(path.Base(f.path))
}

// tempPrefix returns the common prefix of temporary files from earlier calls.
func tempPrefix(f remoteFile) string {
	before, _, _ := strings.Cut(f.temp, tempMark)
	return before + tempMark
}

func (unix) files(p hostPaths) []remoteFile {
	switch p.manager {
	case "systemd":
		return []remoteFile{{path: unitPath(p), dir: path.Dir(unitPath(p)), mode: "0644", content: []byte(unit(p))}}
	case "launchd":
		return []remoteFile{{path: plistPath(p), dir: path.Dir(plistPath(p)), mode: "0644", content: []byte(plist(p))}}
	}
	return []remoteFile{{path: path.Join(p.dir, "supervise"), mode: "0700", content: []byte(supervise(p))}}
}

func (unix) start(p hostPaths, stamp string) string {
	script := "set -e\ncd " + quote(p.dir) + "\n"
	switch p.manager {
	case "systemd":
		script += startSystemd(p)
	case "launchd":
		script += startLaunchd(p)
	default:
		script += startProcess(p)
	}
	return strings.ReplaceAll(script, "STAMP", stamp)
}

func (unix) stop(p hostPaths) string {
	var script string
	switch p.manager {
	case "systemd":
		script = stopSystemd(p)
	case "launchd":
		script = stopLaunchd(p)
	default:
		script = stopProcess(p)
	}
	return script + "rm -f " + quote(p.token) + " " + quote(p.config) + " " + quote(path.Join(p.dir, "stamp")) + " " + quote(p.dir) + "/.new-*\n"
}

func (unix) logs(p hostPaths) string {
	if p.manager == "systemd" {
		return "journalctl --unit " + unitName(p) + " --lines 20 --no-pager --output cat 2>&1"
	}
	return "tail -n 20 " + quote(path.Join(p.dir, "executor.log")) + " 2>&1"
}
