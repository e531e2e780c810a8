#!/bin/bash
# test.sh MODULE-DIRECTORY...: runs all tests of these modules; TESTFLAGS are flags for
# `go test`, and DROVER_TEST_TIMEOUT is how long a package may take. A test that fails runs up to two more times. If it passes then, it is listed
# as flaky, and more than three of those fail the run. The last lines list what failed and
# what was flaky, and are kept in .bin/test/verdict.txt beside the events of each module.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD out=$PWD/.bin/test go=${GO:-go} code=0
rm -rf "$out"
mkdir -p "$out"
gotestsum=$("$go" tool -modfile=tools/go.mod -n gotestsum)
for module in "$@"; do
  packages=./... timeout=10m name=${module//\//-}
  [ "$module" != . ] || packages='./test ./workflows ./...' timeout=${DROVER_TEST_TIMEOUT:-45m} name=root # the longest first
  cd "$root/$module"
  # shellcheck disable=SC2086 # TESTFLAGS are several words
  "$gotestsum" --format pkgname --format-hide-empty-pkg --hide-summary skipped \
    --rerun-fails=2 --rerun-fails-max-failures=6 --rerun-fails-run-root-test \
    --jsonfile "$out/$name.json" --packages "$packages" \
    -- -count=1 -timeout "$timeout" ${TESTFLAGS:-} || code=$?
done
cd "$root"
"$go" run ./internal/testenv/verdict "$out"/*.json | tee "$out/verdict.txt" || code=$?
exit $code
