#!/usr/bin/env bash
# Hostile input: ci/fuzz.sh SECONDS [TARGET..] runs each fuzz target for SECONDS, guided by coverage where cargo-fuzz, a
# nightly toolchain and a C++ compiler are there, else by blind mutations of the kept corpora on the stable toolchain.
# The kept corpora themselves (fuzz/corpus) are replayed by every `cargo test`.
#
# What libFuzzer finds stands in fuzz/artifacts; new inputs go to $CARGO_TARGET_DIR, and into fuzz/corpus by hand:
#   cargo +nightly fuzz cmin --fuzz-dir fuzz TARGET
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || {
    echo "usage: ci/fuzz.sh SECONDS [TARGET..]" >&2
    exit 2
}
seconds="$1"
shift
[ $# -gt 0 ] || set -- key_order index log_blocks page_files recovery resp commands sandbox

if ! cargo +nightly fuzz --version || ! command -v c++; then
    echo "no coverage: needs a nightly toolchain, 'cargo install cargo-fuzz' and a C++ compiler" >&2
    for target in "$@"; do
        ENSILE_FUZZ_SECONDS="$seconds" ENSILE_FUZZ_SEED="${ENSILE_FUZZ_SEED:-$RANDOM}" \
            cargo test --release --package ensile-fuzz --test corpora -- --exact "$target" --nocapture
    done
    exit
fi

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/fuzz"
# Without rust-src std is not instrumented, which this compiler takes for a mistake.
export RUSTFLAGS="-Cunsafe-allow-abi-mismatch=sanitizer ${RUSTFLAGS:-}"
for target in "$@"; do
    found="$CARGO_TARGET_DIR/corpus/$target"
    mkdir -p "$found"
    cargo +nightly fuzz run --fuzz-dir fuzz "$target" "$found" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -max_len=4096 -timeout=30 -print_final_stats=1
done
