#!/bin/bash
# Fails with the reason if Node.js or npm is missing, or too old to build the web UI.
# The version is that of `engines` in web/package.json.
set -euo pipefail
cd "$(dirname "$0")/.."
needed=$(sed -n 's/^ *"node": ">=\([0-9.]*\)".*/\1/p' web/package.json)
only='Only changes to web/ need it: all other targets use the built files of gateway/ui/dist.'
if ! found=$(node --version 2> /dev/null); then
  printf 'The web UI is built with Node.js %s or later, which is not installed: apt-get install nodejs npm\n%s\n' "$needed" "$only" >&2
  exit 1
fi
if [ "$(printf '%s\n' "$needed" "${found#v}" | sort -V | head -n 1)" != "$needed" ]; then
  printf 'The web UI is built with Node.js %s or later; %s is %s.\nDebian 13 has a version that is new enough; for others see https://nodejs.org/en/download.\n%s\n' "$needed" "$(command -v node)" "$found" "$only" >&2
  exit 1
fi
if ! command -v npm > /dev/null; then
  printf 'The web UI is built with npm, which is not installed: apt-get install npm\n%s\n' "$only" >&2
  exit 1
fi
