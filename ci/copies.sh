#!/usr/bin/env bash
# Kills copiers and owners at random, in each way to copy and for each kind of folder, and compares the restored states
# with the acknowledged numbers. ENSILE_COPIES_KILLS (70) processes are killed for each way and kind, some 1,100 in all,
# in about 15 minutes. By hand.
set -euo pipefail
cd "$(dirname "$0")/.."

kills="${ENSILE_COPIES_KILLS:-70}"
seed="${ENSILE_COPIES_SEED:-1}"
cargo build --profile release-plain --package ensile-bench --example copies
cargo build --profile release-plain --package ensile-cli
programs="${CARGO_TARGET_DIR:-$PWD/target}/release-plain"

# kill_all WAY KIND..
kill_all() {
    local way="$1" kind
    shift
    for kind in "$@"; do
        "$programs/examples/copies" kill "$way" "$kind" "$kills" "$programs/ensile" "$seed"
    done
}

kill_all backup fuzzy cycling pictures no-log objects
kill_all restore fuzzy cycling pictures no-log objects
kill_all restore-archive fuzzy cycling pictures
# Pictures are not shipped.
kill_all take-over fuzzy cycling objects
