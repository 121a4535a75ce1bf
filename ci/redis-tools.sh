#!/usr/bin/env bash
# redis-cli and redis-benchmark against `ensile serve` and the hash table of ensile-services. They come from Debian's
# package redis-tools, which is installed if it is not there. About twenty seconds, without the build.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    printf 'redis-tools: %s\n' "$*" >&2
    exit 1
}

if ! command -v redis-cli >/dev/null || ! command -v redis-benchmark >/dev/null; then
    command -v apt-get >/dev/null || die "no redis-cli or redis-benchmark, and no apt-get: install redis' tools"
    [ "$(id -u)" = 0 ] || die "no redis-cli or redis-benchmark: run as root, or 'apt-get install redis-tools' first"
    apt-get update && apt-get install --yes --no-install-recommends redis-tools || die "redis-tools cannot be installed"
fi
# The whole workspace: what the tests before have built is built alike.
cargo test --workspace --test redis_tools -- --ignored "$@"
cargo test --workspace --test cli redis_tools -- --ignored "$@"
