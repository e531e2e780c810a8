package bootstrap

import "path"

// label names the service of an executor on macOS.
func label(p hostPaths) string { return "run.drover.executor." + p.executor }

// domain returns the launchd domain of the service: services of root start with
// the host, those of other users at login.
func domain(p hostPaths) string {
	if p.root {
		return "system"
	}
	return "user/" + p.uid
}

func plistPath(p hostPaths) string {
	if p.root {
		return "/Library/LaunchDaemons/" + label(p) + ".plist"
	}
	return path.Join(p.home, "Library/LaunchAgents", label(p)+".plist")
}

// plist is the service definition. Tasks outlive the service, so launchd must
// not kill its process group.
func plist(p hostPaths) string {
	log := path.Join(p.dir, "executor.log")
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>` + label(p) + `</string>
  <key>ProgramArguments</key>
  <array>
    <string>` + p.drover + `</string>
    <string>start</string>
    <string>executor</string>
    <string>--config</string>
    <string>` + p.config + `</string>
  </array>
  <key>WorkingDirectory</key><string>` + p.dir + `</string>
  <key>StandardOutPath</key><string>` + log + `</string>
  <key>StandardErrorPath</key><string>` + log + `</string>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><true/>
  <key>ThrottleInterval</key><integer>2</integer>
  <key>AbandonProcessGroup</key><true/>
  <key>ExitTimeOut</key><integer>60</integer>
  <key>Umask</key><integer>63</integer>
</dict>
</plist>
`
}

func startLaunchd(p hostPaths) string {
	target := domain(p) + "/" + label(p)
	return `if launchctl print ` + target + ` > /dev/null 2>&1 && [ "$(cat stamp 2> /dev/null)" = STAMP ]; then exit 0; fi
rm -f stamp
` + bootout(target) + `launchctl bootstrap ` + domain(p) + ` ` + quote(plistPath(p)) + `
echo STAMP > stamp
echo ` + startedOutput + `
`
}

// bootout stops a service. launchd answers before the service has ended, and
// rejects a new one of the same name until then.
func bootout(target string) string {
	return `launchctl bootout ` + target + ` 2> /dev/null || :
n=0
while launchctl print ` + target + ` > /dev/null 2>&1; do
  n=$((n + 1))
  if [ $n -gt 90 ]; then echo "the service does not end" >&2; exit 75; fi
  sleep 1
done
`
}

func stopLaunchd(p hostPaths) string {
	return bootout(domain(p)+"/"+label(p)) + "rm -f " + quote(plistPath(p)) + "\n"
}
