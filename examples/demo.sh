#!/bin/bash
# Runs a graph of tasks on a `drover dev` with an embedded Temporal server, for
# `make demo`. Only the build cache remains afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."
demo() {
  echo; echo "== Fan-out and fan-in: examples/hello.yaml"
  bin/drover run examples/hello.yaml --follow
  echo; echo "== The recorded run"
  bin/drover ps
}
export -f demo
examples/with-dev.sh shell bash -euo pipefail -c demo

cat <<'TEXT'

The graph ran as a Temporal workflow. To try more:
  bin/drover dev                                  # prints the addresses of the API and of Temporal's web UI
  bin/drover run examples/hello.yaml --follow     # in another terminal
  bin/drover run examples/self.yaml --env SOURCE=$PWD --follow   # Drover tests and builds itself: some minutes the first time
  bin/drover ps; bin/drover status ID; bin/drover logs ID TASK
docs/architecture.md describes how it works.
TEXT
