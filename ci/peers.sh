#!/usr/bin/env bash
# Ensile beside LMDB, redb, fjall, RocksDB and SQLite: ci/peers.sh [OPTION..] builds the package peers/ and runs its
# program with these options (--help lists them). Without any: two million rows and three rounds, in some twenty
# minutes. RocksDB is Debian's package librocksdb-dev, whose header libclang reads; this script installs both.
#
# ci/peers.sh test runs rustfmt, clippy and the package's tests instead.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    printf 'peers: %s\n' "$*" >&2
    exit 1
}

is_installed() {
    [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

command -v cargo >/dev/null || die "no cargo: install Rust by rustup (https://rustup.rs)"
command -v dpkg-query >/dev/null || die "no Debian: this script takes RocksDB from librocksdb-dev"
missing=()
for package in g++ libc6-dev libclang-dev librocksdb-dev; do
    is_installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || die "run as root, or 'apt-get install ${missing[*]}' first"
    apt-get update && apt-get install --yes --no-install-recommends "${missing[@]}" ||
        die "${missing[*]} cannot be installed"
fi

library="$(dpkg-query --listfiles librocksdb-dev | grep '/librocksdb\.so$')" || die "no librocksdb.so in librocksdb-dev"
export ROCKSDB_INCLUDE_DIR=/usr/include ROCKSDB_LIB_DIR="${library%/*}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/peers"
manifest=(--manifest-path peers/Cargo.toml)
if [ "${1:-}" = test ]; then
    cargo fmt "${manifest[@]}" --check
    cargo clippy --quiet "${manifest[@]}" --all-targets -- -D warnings
    cargo test "${manifest[@]}"
    exit
fi
cargo build --release "${manifest[@]}"
"$CARGO_TARGET_DIR/release/ensile-peers" "$@"
