#!/usr/bin/env bash
# Is what transactions saw on real threads serializable? The long runs of the engine's tests/engine/histories.rs, built for
# release: `ci/histories.sh [TRANSACTIONS [SEEDS [THREADS]]]`, where TRANSACTIONS are begun per seed. Without arguments: a
# run in which more than a million commit, then five seeds each on two threads, on three and on four, in which more than ten
# million do, and more than a million errors of closures are handed out; fewer than that is a failure.
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
answered=0

# judge TRANSACTIONS SEEDS THREADS: sets `committed` and `answered`.
judge() {
    ENSILE_TRANSACTIONS="$1" ENSILE_SEEDS="$2" ENSILE_THREADS="$3" \
        cargo test --release --package ensile-engine --test engine -- --nocapture histories:: | tee "$said"
    local found='.* transactions checked, \([0-9]*\) committed, \([0-9]*\) errors handed out, no anomaly$'
    committed="$(sed -n "s/$found/\1/p" "$said")"
    answered="$(sed -n "s/$found/\2/p" "$said")"
    [ "${committed:-0}" -gt 0 ] || {
        echo "nothing was checked" >&2
        exit 1
    }
}

# demand LEAST FOUND WHAT
demand() {
    echo "$2 $3, at least $1 asked for"
    [ "$2" -ge "$1" ] || exit 1
}

if [ $# -gt 0 ]; then
    judge "$1" "${2:-1}" "${3:-4}"
    exit
fi
# Six or seven in ten of those begun commit, and eight in a hundred fail by themselves.
judge 1800000 1 2
demand 1000001 "$committed" "committed in one run"
all_committed=0
all_answered=0
for threads in 2 3 4; do
    judge 1700000 5 "$threads"
    all_committed=$((all_committed + committed))
    all_answered=$((all_answered + answered))
done
demand 10000001 "$all_committed" "committed over fifteen seeds"
demand 1000001 "$all_answered" "errors handed out over fifteen seeds"
