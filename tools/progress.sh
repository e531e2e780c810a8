#!/bin/bash
# progress.sh GO build -v ... PACKAGE: runs a build, and reports on stderr how many
# packages are compiled. It prints nothing for a build from the cache.
set -euo pipefail
package=${*: -1}
compiled=0 total= next=0
report() {
  printf 'compiled %d of about %d packages in %d:%02d\n' "$compiled" "$total" $((SECONDS / 60)) $((SECONDS % 60)) >&2
}
# go build -v prints one import path for each package, and errors as other lines.
{ "$@" 3>&1 1>&2 2>&3 3>&-; } | while IFS= read -r line; do
  if [[ ! $line =~ ^[a-zA-Z0-9._~/-]+$ ]]; then
    printf '%s\n' "$line" >&2
    continue
  fi
  compiled=$((compiled + 1))
  [[ $compiled -lt 100 || $SECONDS -lt $next ]] && continue
  total=${total:-$("$1" list -deps "$package" | wc -l)}
  report
  next=$((SECONDS + 10))
done
