#!/bin/bash
# What `make demo` runs: two graphs of tasks through all of Drover in one process
# on an embedded Temporal server. It leaves nothing behind but the build cache.
set -euo pipefail
cd "$(dirname "$0")/.."
demo() {
  echo; echo "== A fan-out and a fan-in: examples/hello.yaml"
  bin/drover run examples/hello.yaml --follow
  echo; echo "== Drover works on itself: examples/self.yaml"
  bin/drover run examples/self.yaml --env SOURCE="$PWD" --follow
  echo; echo "== What was recorded"
  bin/drover runs list
}
export -f demo
examples/with-dev.sh shell bash -euo pipefail -c demo

cat <<'TEXT'

Both graphs ran through a real Temporal workflow. To look around yourself:
  bin/drover dev                                  # prints the addresses of the API and of Temporal's web UI
  bin/drover run examples/hello.yaml --follow     # in another terminal
  bin/drover runs list; bin/drover runs get ID; bin/drover runs logs ID TASK
docs/architecture.md tells how it works.
TEXT
