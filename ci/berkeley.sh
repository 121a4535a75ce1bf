#!/usr/bin/env bash
# The hash table beside Berkeley DB, on a small scale. Berkeley DB comes from Debian's package libdb5.3-dev, which is
# installed if it is not there. Some seconds, without the build.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    printf 'berkeley: %s\n' "$*" >&2
    exit 1
}

if ! echo '#include <db.h>' | cc -fsyntax-only -x c - 2>/dev/null; then
    command -v apt-get >/dev/null || die "no db.h, and no apt-get: install Berkeley DB 5.3"
    [ "$(id -u)" = 0 ] || die "no db.h: run as root, or 'apt-get install libdb5.3-dev' first"
    apt-get update && apt-get install --yes --no-install-recommends libdb5.3-dev || die "libdb5.3-dev cannot be installed"
fi
# The whole workspace: what the tests before have built is built alike.
cargo test --workspace --test berkeley -- --ignored "$@"
