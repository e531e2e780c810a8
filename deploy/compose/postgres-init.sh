#!/bin/bash
# Makes the records database; Temporal's setup makes its own two.
set -euo pipefail
createdb --username "$POSTGRES_USER" drover
