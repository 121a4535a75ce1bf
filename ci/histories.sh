#!/usr/bin/env bash
# Is what transactions saw on real threads serializable? The long runs of crates/ensile-engine/tests/histories.rs, built for
# release: `ci/histories.sh [TRANSACTIONS [SEEDS [THREADS]]]`, where TRANSACTIONS are begun per seed. Without arguments: a
# run in which more than a million commit, then five seeds each on two threads and on four, in which more than ten million
# do; fewer than that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    echo "usage: bash ci/histories.sh [TRANSACTIONS [SEEDS [THREADS]]], numbers from 1 on" >&2
    exit 2
}
[ $# -le 3 ] || usage
for number in "$@"; do
    [[ "$number" =~ ^[1-9][0-9]*$ ]] || usage
done
said="$(mktemp)"
trap 'rm -f "$said"' EXIT
committed=0

# judge TRANSACTIONS SEEDS THREADS: sets `committed`.
judge() {
    ENSILE_TRANSACTIONS="$1" ENSILE_SEEDS="$2" ENSILE_THREADS="$3" \
        cargo test --release --package ensile-engine --test histories -- --nocapture | tee "$said"
    committed="$(sed -n 's/.* transactions checked, \([0-9]*\) committed, no anomaly$/\1/p' "$said")"
    [ "${committed:-0}" -gt 0 ] || {
        echo "nothing was checked" >&2
        exit 1
    }
}

# demand LEAST COMMITTED WHERE
demand() {
    echo "$2 committed $3, at least $1 asked for"
    [ "$2" -ge "$1" ] || exit 1
}

if [ $# -gt 0 ]; then
    judge "$1" "${2:-1}" "${3:-4}"
    exit
fi
# Six or seven in ten of those begun commit.
judge 1800000 1 2
demand 1000001 "$committed" "in one run"
judge 1700000 5 2
sum=$committed
judge 1700000 5 4
demand 10000001 $((sum + committed)) "over ten seeds"
