#!/bin/bash
# web-check.sh lints the web UI and tests its logic. It fails also if the files that are built from web/ and api/openapi.yaml differ
# from the ones in the working tree. It builds with the packages of the lock file.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/.bin/web-check
failed=0
fail() { printf 'web-check: %s\n' "$*" >&2; failed=1; }

if grep -n '"resolved"' web/package-lock.json; then
  fail 'web/package-lock.json names addresses of packages; web/.npmrc keeps them out: run npm install in web/'
fi
rm -rf "$out"
mkdir -p "$out"
cd web
npm ci
npm run --silent lint || failed=1
npm run --silent types || failed=1
npm run --silent unit || failed=1
npx --no-install openapi-typescript ../api/openapi.yaml -o "$out/schema.gen.ts" > "$out/api.log" 2>&1 || { cat "$out/api.log" >&2; exit 1; }
npx --no-install vite build --outDir "$out/dist" --emptyOutDir --logLevel warn
cd ..
cmp "$out/schema.gen.ts" web/src/api/schema.gen.ts || fail 'web/src/api/schema.gen.ts is not that of api/openapi.yaml: run make web, and commit it'
diff -rq "$out/dist" gateway/ui/dist || fail 'gateway/ui/dist is not that of web/: run make web, and commit gateway/ui/dist'
[ $failed = 0 ] && touch .bin/web # make web has nothing to do
exit $failed
