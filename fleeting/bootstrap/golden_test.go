package bootstrap

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/internal/testenv"
)

var update = flag.Bool("update", false, "write the golden files")

// kinds holds the hosts by the output of their probes.
func kinds() map[string]string {
	return map[string]string{
		"linux-systemd": "os=Linux\narch=x86_64\nuid=0\nhome=/root\nroot=true\nsystemd=true\n",
		"linux-process": "os=Linux\narch=aarch64\nuid=1000\nhome=/home/admin\nsystemd=true\n",
		"darwin-root":   "os=Darwin\narch=arm64\nuid=0\nhome=/var/root\nroot=true\n",
		"darwin-user":   "os=Darwin\narch=x86_64\nuid=501\nhome=/Users/admin\n",
		"windows":       "os=windows\r\narch=AMD64\r\nhome=C:\\Users\\Administrator\r\nroot=true\r\n",
	}
}

func hostOf(t *testing.T, facts string) *host {
	t.Helper()
	h := &host{conn: &connection{}, system: unix{}}
	if strings.Contains(facts, "os=windows") {
		h.system = powershell{}
	}
	require.NoError(t, h.applyFacts(Target{Executor: "fleet-i-1", Connect: fleeting.ConnectInfo{}}, readFacts(facts)))
	h.paths.drover = h.system.join(h.paths.base, "bin", "0123456789abcdef", "drover")
	return h
}

// scripts returns the commands for a host, and the files for its service
// manager, by name.
func scripts(h *host) (run, files map[string]string) {
	secret := remoteFile{path: h.paths.token, dir: h.paths.dir, temp: ".new-fleet-i-1~X", digest: strings.Repeat("0", 64), mode: "0600"}
	run = map[string]string{
		"probe": h.system.probe(), "digest": h.system.digest(h.paths.drover), "put": h.system.put(secret),
		"start": h.system.start(h.paths, "0a1b"), "stop": h.system.stop(h.paths), "logs": h.system.logs(h.paths),
	}
	files = map[string]string{}
	for _, f := range h.system.files(h.paths) {
		files[f.mode+" "+f.path] = string(f.content)
	}
	return run, files
}

// TestCommands compares the commands for each kind of host with reviewed golden
// files.
func TestCommands(t *testing.T) {
	t.Parallel()
	for kind, facts := range kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			run, files := scripts(hostOf(t, facts))
			var got strings.Builder
			for _, name := range []string{"probe", "digest", "put", "start", "stop", "logs"} {
				got.WriteString("== " + name + "\n" + strings.TrimSuffix(run[name], "\n") + "\n")
			}
			for name, content := range files {
				got.WriteString("== file " + name + "\n" + content)
			}
			golden := filepath.Join("testdata", kind+".golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String(), "run the test with -update, and look at the difference")
		})
	}
}

// Every shell that may be /bin/sh can parse the scripts.
func TestCommands_are_shell(t *testing.T) {
	t.Parallel()
	for kind, facts := range kinds() {
		if kind == "windows" {
			continue
		}
		run, files := scripts(hostOf(t, facts))
		for name, content := range files {
			if strings.HasPrefix(content, "#!/bin/sh") {
				run[name] = content
			}
		}
		for name, script := range run {
			for _, shell := range [][]string{{"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
				if _, err := exec.LookPath(shell[0]); err != nil {
					continue
				}
				out, err := exec.CommandContext(t.Context(), shell[0], append(shell[1:], "-n", "-c", script)...).CombinedOutput()
				require.NoError(t, err, "%s %s %s: %s", kind, name, shell, out)
			}
		}
	}
}

func TestUnit_is_valid(t *testing.T) {
	t.Parallel()
	testenv.Use(t, "systemd")
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		testenv.Missing(t, "systemd", "systemd-analyze is not installed", "install systemd")
	}
	h := hostOf(t, kinds()["linux-systemd"])
	self, err := os.Executable()
	require.NoError(t, err)
	h.paths.drover, h.paths.dir = self, t.TempDir()
	path := filepath.Join(t.TempDir(), unitName(h.paths))
	require.NoError(t, os.WriteFile(path, []byte(unit(h.paths)), 0o600))
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}

func TestPlist_is_valid(t *testing.T) {
	t.Parallel()
	decoder := xml.NewDecoder(strings.NewReader(plist(hostOf(t, kinds()["darwin-root"]).paths)))
	for {
		if _, err := decoder.Token(); err != nil {
			require.ErrorIs(t, err, io.EOF)
			return
		}
	}
}

func TestPowershell_line(t *testing.T) {
	t.Parallel()
	line := powershell{}.line("'it''s'", false)
	encoded, ok := strings.CutPrefix(line, "powershell.exe -NoProfile -NonInteractive -EncodedCommand ")
	require.True(t, ok)
	text, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(t, err)
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(text[2*i:])
	}
	require.Equal(t, "$ErrorActionPreference = 'Stop'; $ProgressPreference = 'SilentlyContinue'\n'it''s'", string(utf16.Decode(units)))
}

// OpenSSH passes the command to cmd.exe, which limits its length.
func TestPowershell_lines_are_short(t *testing.T) {
	t.Parallel()
	h := hostOf(t, kinds()["windows"])
	run, _ := scripts(h)
	for name, script := range run {
		require.Less(t, len(h.system.line(script, false)), 8191, name)
	}
}

func TestUnix_line(t *testing.T) {
	t.Parallel()
	script := `printf '%s|' "it's" $1 \\ '$x'`
	for _, shell := range []string{"sh", "bash", "dash", "zsh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(t.Context(), path, "-c", unix{}.line(script, false)).Output()
		require.NoError(t, err)
		require.Equal(t, `it's|\|$x|`, string(out), shell)
	}
	require.Equal(t, `sudo -n -- /bin/sh -c 'a'`, unix{}.line("a", true))
}

func TestApplyFacts(t *testing.T) {
	t.Parallel()
	h := &host{conn: &connection{}, system: unix{}}
	target := Target{Executor: "x", Connect: fleeting.ConnectInfo{Connector: fleeting.Connector{OS: "linux", Arch: "amd64"}}}
	require.NoError(t, h.applyFacts(target, readFacts("os=Linux\narch=x86_64\nuid=0\nroot=true\n")))
	require.Equal(t, "/var/lib/drover/executors/x/token", h.paths.token)
	for _, facts := range []string{"os=Linux\narch=aarch64\n", "os=Darwin\narch=x86_64\n"} {
		var fault *Error
		require.ErrorAs(t, h.applyFacts(target, readFacts(facts)), &fault)
		require.Equal(t, ReasonUnsupported, fault.Reason)
	}
	require.ErrorContains(t, h.applyFacts(Target{}, readFacts("os=SunOS\narch=sun4v\n")), "not on SunOS")
	for path, plain := range map[string]bool{
		"/var/lib/drover": true, "/home/a.b-c/.drover": true, `C:\ProgramData\drover`: true, "relative": false, "/": false, "": false,
		"/a b": false, "/a'b": false, "/a%b": false, "/a;b": false, "/a$b": false, `C:\a b`: false,
	} {
		require.Equal(t, plain, plainPath(path), path)
	}
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	both := fleeting.ConnectInfo{ExternalAddr: "192.0.2.1", InternalAddr: "10.0.0.1"}
	require.Equal(t, "10.0.0.1:22", addressOf(both, false))
	require.Equal(t, "192.0.2.1:22", addressOf(both, true))
	require.Equal(t, "192.0.2.1:22", addressOf(fleeting.ConnectInfo{ExternalAddr: "192.0.2.1"}, false), "the only address")
	require.Equal(t, "10.0.0.1:22", addressOf(fleeting.ConnectInfo{InternalAddr: "10.0.0.1"}, true), "the only address")
	require.Equal(t, "10.0.0.1:2222", addressOf(fleeting.ConnectInfo{InternalAddr: "10.0.0.1", Connector: fleeting.Connector{ProtocolPort: 2222}}, false))
	require.Equal(t, "10.0.0.1:2223", addressOf(fleeting.ConnectInfo{InternalAddr: "10.0.0.1:2223"}, false))
	require.Equal(t, "[2001:db8::1]:22", addressOf(fleeting.ConnectInfo{InternalAddr: "2001:db8::1"}, false))
	require.Equal(t, "[2001:db8::1]:2222", addressOf(fleeting.ConnectInfo{InternalAddr: "[2001:db8::1]:2222"}, false))
	require.Empty(t, addressOf(fleeting.ConnectInfo{}, true))
}

func TestBinaries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, file := range []string{
		"linux-arm64/drover", "linux-arm64/drover-shim", "windows-amd64/drover.exe", "windows-amd64/drover-shim.exe", "darwin-arm64/drover",
		"linux-amd64/drover", "linux-amd64/drover-agent", "linux-amd64/drover-shim",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(file), 0o600))
	}
	b := &Binaries{Dir: dir}
	for kind, names := range map[string][]string{
		"linux/arm64": {"drover", "drover-shim"}, "linux/amd64": {"drover-agent", "drover-shim"}, "windows/amd64": {"drover.exe", "drover-shim.exe"},
	} {
		system, arch, _ := strings.Cut(kind, "/")
		found, err := b.find(system, arch)
		require.NoError(t, err)
		require.Len(t, found, 2)
		for i, p := range found {
			require.Equal(t, names[i], p.name)
			require.Equal(t, filepath.Join(dir, system+"-"+arch, names[i]), p.path)
			require.Len(t, p.digest, 64)
		}
	}
	for beside, name := range map[string]string{"linux-amd64": "drover-agent", "linux-arm64": "drover"} {
		own := &Binaries{Drover: AgentBeside(filepath.Join(dir, beside, "drover")), Shim: filepath.Join(dir, beside, "drover-shim")}
		found, err := own.find(runtime.GOOS, runtime.GOARCH)
		require.NoError(t, err)
		require.Equal(t, []string{name, "drover-shim"}, []string{found[0].name, found[1].name})
		require.Equal(t, filepath.Join(dir, beside, name), found[0].path)
	}
	_, err := b.find("linux", "riscv64")
	require.ErrorIs(t, err, errNoBinary)
	_, err = b.find("darwin", "arm64")
	require.ErrorIs(t, err, os.ErrNotExist, "there is no shim")
	_, err = (&Binaries{}).find("linux", "amd64")
	require.ErrorIs(t, err, errNoBinary)

	before, err := b.digest(filepath.Join(dir, "linux-arm64/drover"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "linux-arm64/drover"), []byte("a newer one"), 0o600))
	after, err := b.digest(filepath.Join(dir, "linux-arm64/drover"))
	require.NoError(t, err)
	require.NotEqual(t, before, after)
}

func TestNewSSH_checks(t *testing.T) {
	t.Parallel()
	good := Options{Binaries: &Binaries{}, Executor: Executor{Pool: "p", Driver: "shell", Slots: 1, Gateway: "g", Temporal: "t"}}
	_, err := NewSSH(good)
	require.NoError(t, err)
	for text, spoil := range map[string]func(*Options){
		"binaries": func(o *Options) { o.Binaries = nil }, "a pool": func(o *Options) { o.Executor.Pool = "" }, "one slot": func(o *Options) { o.Executor.Slots = 0 },
		"the gateway": func(o *Options) { o.Executor.Gateway = "" }, "a relay, or": func(o *Options) { o.Executor.Temporal = "" },
		"no host key policy": func(o *Options) { o.HostKeys.Policy = "maybe" }, "requires a file": func(o *Options) { o.HostKeys.Policy = KnownHosts },
		"known hosts": func(o *Options) { o.HostKeys = HostKeys{Policy: KnownHosts, File: "/none"} },
	} {
		o := good
		spoil(&o)
		_, err := NewSSH(o)
		require.ErrorContains(t, err, text)
	}
}
