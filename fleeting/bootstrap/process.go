package bootstrap

import "path"

// exitRemoved is the exit code of an executor that was removed. It is not
// restarted, since its id cannot be used again.
const exitRemoved = "4"

// supervise is a script that restarts the executor on a host without a service
// manager, or for a user without access to one. It also rotates the executor's
// log.
func supervise(p hostPaths) string {
	return `#!/bin/sh
# Restarts the executor until this script receives SIGTERM.
cd ` + quote(p.dir) + ` || exit 1
child=
trap 'trap "" TERM; if [ -n "$child" ]; then kill "$child" 2> /dev/null; wait "$child"; fi; exit 0' TERM
while :; do
  if [ -f executor.log ] && [ "$(wc -c < executor.log)" -gt 10485760 ]; then mv -f executor.log executor.log.1; fi
  ` + quote(p.drover) + ` start executor --config ` + quote(p.config) + ` >> executor.log 2>&1 &
  child=$!
  wait "$child"
  code=$?
  child=
  if [ $code = ` + exitRemoved + ` ]; then exit 0; fi
  sleep 2 &
  wait $!
done
`
}

// processes defines shell functions that find and stop the supervisor and the
// executor. They search by command line, because another process may have
// reused a stored pid. They compare the end of the command line, so that the
// searching shell does not match itself.
func processes(p hostPaths) string {
	return `# pids lists the processes whose command line ends in $1.
pids() {
  for f in $(grep -ls -e "${1##* }" /proc/[0-9]*/cmdline); do
    case "$(tr '\0' ' ' 2> /dev/null < $f)" in *"$1 ") f=${f%/cmdline}; echo "${f#/proc/}";; esac
  done
}
supervisors() { pids ` + quote("/bin/sh "+path.Join(p.dir, "supervise")) + `; }
executors() { pids ` + quote("/drover start executor --config "+p.config) + `; }
signal() { for pid in $2; do kill -$1 $pid 2> /dev/null || :; done; }
# end stops both: the supervisor first, because it would restart the executor.
end() {
  signal TERM "$(supervisors)"
  n=0
  while [ -n "$(supervisors)$(executors)" ]; do
    if [ -z "$(supervisors)" ]; then signal TERM "$(executors)"; fi
    if [ $n -gt 60 ]; then signal KILL "$(supervisors) $(executors)"; fi
    n=$((n + 1))
    sleep 1
  done
}
`
}

func startProcess(p hostPaths) string {
	return processes(p) + `if [ -n "$(supervisors)" ] && [ "$(cat stamp 2> /dev/null)" = STAMP ]; then exit 0; fi
rm -f stamp
end
setsid /bin/sh ` + quote(path.Join(p.dir, "supervise")) + ` < /dev/null > /dev/null 2>&1 &
pid=$!
n=0
while [ -z "$(supervisors)" ]; do
  # If its executor was removed, the supervisor exits, perhaps before this check.
  # Only the state says so: the command line is also empty during an exec, and
  # wait would then last as long as the supervisor.
  case "$(sed 's/.*) //' 2> /dev/null < /proc/$pid/stat)" in
    Z* | X* | '') if wait $pid; then break; fi;;
  esac
  n=$((n + 1))
  if [ $n -gt 30 ]; then echo "the supervisor does not start" >&2; exit 75; fi
  sleep 1
done
echo STAMP > stamp
echo ` + startedOutput + `
`
}

func stopProcess(p hostPaths) string { return processes(p) + "end\n" }
