package bootstrap

import "path"

// exitRemoved is what an executor ends with that was removed: it is never begun
// again, since its id is spent.
const exitRemoved = "4"

// supervise is what keeps an executor running on a host without a service
// manager, or for a user who has none. It begins what was killed again, and
// keeps of its log what somebody may want to read.
func supervise(p place) string {
	return `#!/bin/sh
# Keeps an executor running until it is told to end.
cd ` + quote(p.dir) + ` || exit 1
child=
trap 'trap "" TERM; if [ -n "$child" ]; then kill "$child" 2> /dev/null; wait "$child"; fi; exit 0' TERM
while :; do
  if [ -f executor.log ] && [ "$(wc -c < executor.log)" -gt 10485760 ]; then mv -f executor.log executor.log.1; fi
  ` + quote(p.drover) + ` executor --config ` + quote(p.config) + ` >> executor.log 2>&1 &
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

// processes are functions that find and end the supervisor and the executor. A
// pid in a file may be that of somebody else by now, so they go by what a
// process was started as; the end of it, or the shell that looks would be
// found too.
func processes(p place) string {
	return `# pids lists the processes whose command line ends in $1.
pids() {
  for f in $(grep -ls -e "${1##* }" /proc/[0-9]*/cmdline); do
    case "$(tr '\0' ' ' 2> /dev/null < $f)" in *"$1 ") f=${f%/cmdline}; echo "${f#/proc/}";; esac
  done
}
supervisors() { pids ` + quote("/bin/sh "+path.Join(p.dir, "supervise")) + `; }
executors() { pids ` + quote("/drover executor --config "+p.config) + `; }
signal() { for pid in $2; do kill -$1 $pid 2> /dev/null || :; done; }
# end ends both: the supervisor first, which would begin the other again.
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

func startProcess(p place) string {
	return processes(p) + `if [ -n "$(supervisors)" ] && [ "$(cat stamp 2> /dev/null)" = STAMP ]; then exit 0; fi
rm -f stamp
end
setsid /bin/sh ` + quote(path.Join(p.dir, "supervise")) + ` < /dev/null > /dev/null 2>&1 &
pid=$!
n=0
while [ -z "$(supervisors)" ]; do
  # One whose executor was removed is at its end, maybe before it is seen.
  if [ -z "$(tr -d '\0' 2> /dev/null < /proc/$pid/cmdline)" ] && wait $pid; then break; fi
  n=$((n + 1))
  if [ $n -gt 30 ]; then echo "the supervisor does not start" >&2; exit 75; fi
  sleep 1
done
echo STAMP > stamp
echo ` + saidStarted + `
`
}

func stopProcess(p place) string { return processes(p) + "end\n" }
