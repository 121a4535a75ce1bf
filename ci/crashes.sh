#!/usr/bin/env bash
# Long runs of faults: ENSILE_CRASH_POINTS (100,000) crash points each with a log, beside pictures, and with pictures alone, and
# each of the first ENSILE_FAILING_CALLS (2,000) calls of a run failing with EIO and ENOSPC, once and for good, on the simulated
# disk; then 1,000 kills of a real process, two of three in recovery, and 250 each beside pictures and without a log. A failure
# of the first names the seed that makes it come again. `crashes.sh points` runs crash points alone. About 45 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

export ENSILE_CRASH_POINTS="${ENSILE_CRASH_POINTS:-100000}" ENSILE_FAILING_CALLS="${ENSILE_FAILING_CALLS:-2000}"
chosen=("$@")
[ $# -gt 0 ] || chosen=("")
cargo test --profile release-plain --package ensile-engine --test engine -- --nocapture "${chosen[@]/#/crashes::}"
[ $# -eq 0 ] || exit 0
# kills REPEAT OPTIONS..: twelve kills of each of so many databases.
kills() {
    cargo run --profile release-plain --package ensile-bench -- tpcc --crash-after 0.15 --repeat "$1" --lives 4 \
        --kill-in-recovery 2 --checkpoint-ms 50 --items 200 --customers 30 --threads 2 "${@:2}"
}
kills 84 --loggers 2
kills 21 --loggers 2 --picture-checkpoints
kills 21 --no-log
