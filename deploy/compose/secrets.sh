#!/bin/bash
# Creates the secrets that docker-compose.yml mounts: random, once, readable
# only by you. Requires bin/drover (make build).
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=deploy/compose/secrets
if [ -e "$dir" ]; then
  echo "$dir exists already; to create new secrets, remove it and the volumes" >&2
  exit 1
fi
umask 077
mkdir "$dir"
password=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
printf '%s' "$password" > "$dir/postgres.password"
printf 'postgres://postgres:%s@postgres:5432/drover?sslmode=disable' "$password" > "$dir/drover.dsn"
printf 'POSTGRES_PWD=%s\n' "$password" > "$dir/temporal.env"
bin/drover keys create encryption --id "$(date +%Y-%m)" --file "$dir/records.keys"
: > "$dir/tokens.yaml"
bin/drover tokens create --name admin --scopes admin --file "$dir/tokens.yaml" > "$dir/admin.token"
bin/drover tokens create --name executor --scopes executor --file "$dir/tokens.yaml" > "$dir/executor.token"
bin/drover tokens create --name prometheus --scopes read --file "$dir/tokens.yaml" > "$dir/metrics.token"
chmod 644 "$dir"/* # the containers read them as other users; only you can access the directory
echo "created $dir"
