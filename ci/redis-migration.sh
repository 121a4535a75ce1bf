#!/usr/bin/env bash
# Moves keys from Debian's redis-server to this server as docs/guide/redis.md says, and compares each key: type, value and
# expiry. KEYS is 1,000,000 by default, of all types. ENSILE_SERVER is the address of a running `ensile serve` without keys
# in place of the server of the tests. Some minutes; ci/redis-compare.sh moves 20,000 keys.
#   bash ci/redis-migration.sh [KEYS]
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -le 1 ] && [[ "${1:-1}" =~ ^[1-9][0-9]*$ ]] || {
    echo "usage: bash ci/redis-migration.sh [KEYS]" >&2
    exit 2
}
ENSILE_KEYS="${1:-1000000}" ENSILE_REDIS_TESTS=redis_migration bash ci/redis-compare.sh --nocapture
