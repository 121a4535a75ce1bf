#!/usr/bin/env bash
# ensile-server beside Debian's redis-server: the same generated requests to both, replies compared byte by byte. The
# server comes from Debian's package redis-server, which is installed if it is not there. Some seconds, without the build.
# ENSILE_SEED draws the requests, ENSILE_REQUESTS is their number, and ENSILE_REDIS_TESTS a part of the tests' names.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    printf 'redis-compare: %s\n' "$*" >&2
    exit 1
}

if ! command -v redis-server >/dev/null; then
    command -v apt-get >/dev/null || die "no redis-server, and no apt-get: install redis 7.0"
    [ "$(id -u)" = 0 ] || die "no redis-server: run as root, or 'apt-get install redis-server' first"
    apt-get update && apt-get install --yes --no-install-recommends redis-server || die "redis-server cannot be installed"
fi
redis-server --version | grep -q 'v=7\.0\.' || die "redis 7.0 is wanted, not $(redis-server --version)"

port=${ENSILE_REDIS_PORT:-16379}
folder=$(mktemp -d)
redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$folder" >"$folder/log" 2>&1 &
redis=$!
trap 'kill "$redis" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 100); do
    if grep -q 'Ready to accept connections' "$folder/log"; then break; fi
    kill -0 "$redis" 2>/dev/null || die "redis-server has ended: $(tail -n 3 "$folder/log")"
    sleep 0.1
done
# The whole workspace: what the tests before have built is built alike.
ENSILE_REDIS=127.0.0.1:$port cargo test --workspace --test server "${ENSILE_REDIS_TESTS:-redis}" -- --ignored --test-threads 1 "$@"
