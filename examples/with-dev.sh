#!/bin/bash
# with-dev.sh EXECUTOR COMMAND...: starts a `drover dev` with executors of one kind
# (shell, docker), runs the command against it, and removes all of its files.
set -euo pipefail
cd "$(dirname "$0")/.."
executor=$1
shift
data=$(mktemp -d "${TMPDIR:-/tmp}/drover-example.XXXXXX")
export DROVER_CONTEXT=$data/context.yaml
bin/drover dev --data-dir "$data" --http 127.0.0.1:0 --temporal 127.0.0.1:0 --temporal-ui 127.0.0.1:0 --executor "$executor" > "$data/dev.log" 2>&1 &
dev=$!
stop() {
  kill "$dev" 2> /dev/null && wait "$dev" || true
  rm -rf "$data" || true
}
trap stop EXIT
for _ in $(seq 600); do
  grep -q '^ready' "$data/dev.log" && break
  kill -0 "$dev" 2> /dev/null || { cat "$data/dev.log" >&2; exit 1; }
  sleep 0.1
done
grep -q '^ready' "$data/dev.log" || { echo "drover dev did not become ready" >&2; cat "$data/dev.log" >&2; exit 1; }
grep -v '^time=' "$data/dev.log"
"$@"
