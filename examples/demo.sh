#!/bin/bash
# What `make demo` runs: all of Drover in one process on an embedded Temporal
# server, and two graphs of tasks through it. It leaves nothing behind but the
# build cache.
set -euo pipefail
cd "$(dirname "$0")/.."
data=$(mktemp -d "${TMPDIR:-/tmp}/drover-demo.XXXXXX")
export DROVER_CONTEXT=$data/context.yaml
bin/drover dev --data-dir "$data" --http 127.0.0.1:0 --temporal 127.0.0.1:0 --temporal-ui 127.0.0.1:0 --executor shell > "$data/dev.log" 2>&1 &
dev=$!
stop() {
  kill "$dev" 2> /dev/null && wait "$dev" || true
  rm -rf "$data"
}
trap stop EXIT
for _ in $(seq 300); do
  grep -q '^ready' "$data/dev.log" && break
  kill -0 "$dev" 2> /dev/null || { cat "$data/dev.log" >&2; exit 1; }
  sleep 0.1
done
grep -q '^ready' "$data/dev.log" || { echo "drover dev did not become ready" >&2; cat "$data/dev.log" >&2; exit 1; }
cat "$data/dev.log"

echo; echo "== A fan-out and a fan-in: examples/hello.yaml"
bin/drover run examples/hello.yaml --follow
echo; echo "== Drover works on itself: examples/self.yaml"
bin/drover run examples/self.yaml --env SOURCE="$PWD" --follow
echo; echo "== What was recorded"
bin/drover runs list

cat <<'TEXT'

Both graphs ran through a real Temporal workflow. To look around yourself:
  bin/drover dev                                  # prints the addresses of the API and of Temporal's web UI
  bin/drover run examples/hello.yaml --follow     # in another terminal
  bin/drover runs list; bin/drover runs get ID; bin/drover runs logs ID TASK
docs/architecture.md tells how it works.
TEXT
