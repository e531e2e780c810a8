#!/bin/bash
# compat.sh fails if a stored history or a migration that existed at the commit of
# test/compat/BASE was changed or removed: running workflows replay the former, and
# databases have applied the latter.
set -euo pipefail
base=$(tr -d '[:space:]' < test/compat/BASE)
if ! git cat-file -e "$base^{commit}" 2> /dev/null; then
  echo "compat: this clone lacks commit $base, so histories and migrations are not compared with it" >&2
  exit 0
fi
changed=$(git diff --name-status --no-renames --diff-filter=MDT "$base" -- workflows/testdata records/sqlite/migrations records/postgres/migrations)
if [ -n "$changed" ]; then
  printf 'compat: changed since %s, but histories and migrations bind (docs/upgrades.md):\n%s\n' "$base" "$changed" >&2
  exit 1
fi
echo "compat: no history and no migration of $base was changed"
