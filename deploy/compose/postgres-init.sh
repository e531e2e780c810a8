#!/bin/bash
# Creates the records database; Temporal's setup creates its own two databases.
set -euo pipefail
createdb --username "$POSTGRES_USER" drover
