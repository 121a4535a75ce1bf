#!/usr/bin/env bash
# Is what transactions saw on real threads serializable? The long runs of crates/ensile-engine/tests/histories.rs, built for
# release: `ci/histories.sh [TRANSACTIONS [SEEDS [THREADS]]]`. Without arguments: a million transactions in one run, then
# a million more of each of ten seeds, on two threads and on four.
set -euo pipefail
cd "$(dirname "$0")/.."

# judge TRANSACTIONS SEEDS THREADS
judge() {
    ENSILE_TRANSACTIONS="$1" ENSILE_SEEDS="$2" ENSILE_THREADS="$3" \
        cargo test --release --package ensile-engine --test histories -- --nocapture
}

if [ $# -gt 0 ]; then
    judge "$1" "${2:-1}" "${3:-4}"
else
    judge 1000000 1 2
    judge 1000000 5 2
    judge 1000000 5 4
fi
