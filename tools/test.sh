#!/bin/bash
# test.sh STAGE: runs the Go tests of a stage of internal/testenv/stages. TESTFLAGS are
# flags for `go test`. The stage unit uses no service, unless DROVER_SUITES names some.
# The others require theirs: a missing one fails tests instead of skipping them. A test
# that fails runs up to two more times. If it passes then, it is listed as flaky, and more
# than three of those fail the run. The last lines list what failed and what was flaky,
# and are kept in .bin/test/STAGE/verdict.txt beside the events of each call of `go test`;
# .bin/test/STAGE/flaky has the output of flaky tests.
set -euo pipefail
cd "$(dirname "$0")/.."
stage=$1 root=$PWD out=$PWD/.bin/test/$1 go=${GO:-go} code=0 each=
stages() { "$go" run ./internal/testenv/stages "$@"; }
# How long tests wait, in units of three minutes: processes share the machine.
export DROVER_TEST_PATIENCE=${DROVER_TEST_PATIENCE-$([ "$stage" = unit ] && echo 2 || echo 4)}
if [ "$stage" = unit ]; then
  export DROVER_SUITES=${DROVER_SUITES-none}
else
  each=-each
  DROVER_SUITES=$(stages services "$stage")
  export DROVER_SUITES DROVER_REQUIRE=${DROVER_REQUIRE-$DROVER_SUITES}
  export DROVER_TEST_TEMPORAL=${DROVER_TEST_TEMPORAL:-auto} DROVER_TEST_S3=${DROVER_TEST_S3:-auto}
fi
skip=$(stages skip)
[ -z "$skip" ] || echo "in quarantine, left out: $skip"
stages quarantine > /dev/null || echo "WARNING: these tests run again"
rm -rf "$out"
mkdir -p "$out"
gotestsum=$("$go" tool -modfile=tools/go.mod -n gotestsum)
calls=$(stages calls "$stage")
[ -n "$calls" ] || { echo "test.sh: the stage $stage has no tests" >&2; exit 1; }
n=0
while IFS=$'\t' read -r module minutes run packages; do
  n=$((n + 1))
  [ "$run" = - ] && tests=() || tests=(-run "$run")
  [ -z "$skip" ] || tests+=(-skip "$skip")
  cd "$root/$module"
  # shellcheck disable=SC2086 # TESTFLAGS are several words
  "$gotestsum" --format pkgname --format-hide-empty-pkg --hide-summary skipped \
    --rerun-fails=2 --rerun-fails-max-failures=6 --rerun-fails-run-root-test \
    --jsonfile "$out/$n.json" --packages "$packages" \
    -- -count=1 -timeout "${minutes}m" "${tests[@]}" ${TESTFLAGS:-} < /dev/null || code=$?
done <<< "$calls"
cd "$root"
"$go" run ./internal/testenv/verdict $each -flaky "$out/flaky" "$out"/*.json | tee "$out/verdict.txt" || code=$?
exit $code
