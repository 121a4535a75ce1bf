#!/usr/bin/env bash
# Kills servers by SIGKILL under 50 clients with WATCH and MULTI, EVAL, FCALL and single commands: ENSILE_KILLS (100) kills for
# each of appendfsync always and everysec, and for each seed. The replies of all lives must be strictly serializable, no
# acknowledged change may be lost, and 100,000 transactions or more must be acknowledged. Some minutes a seed.
#   bash ci/server-kills.sh [SEED..]     1 by default
set -euo pipefail
cd "$(dirname "$0")/.."

export ENSILE_KILLS="${ENSILE_KILLS:-100}" ENSILE_CLIENTS="${ENSILE_CLIENTS:-50}"
export ENSILE_TRANSACTIONS="${ENSILE_TRANSACTIONS:-1300}"
least="${ENSILE_LEAST:-$((ENSILE_KILLS * 1000))}"
[ $# -gt 0 ] || set -- 1
for seed in "$@"; do
    [[ "$seed" =~ ^[0-9]+$ ]] || {
        echo "usage: bash ci/server-kills.sh [SEED..], numbers" >&2
        exit 2
    }
done
said="$(mktemp)"
trap 'rm -f "$said"' EXIT
for seed in "$@"; do
    ENSILE_SEED="$seed" cargo test --package ensile-server --test kills -- --nocapture --test-threads 1 | tee "$said"
    for level in always everysec; do
        found="$(sed -n "s/^.*$level: [0-9]* kills .* \([0-9]*\) transactions acknowledged.*no anomaly.*/\1/p" "$said")"
        echo "seed $seed, $level: ${found:-0} transactions acknowledged, at least $least asked for"
        [ "${found:-0}" -ge "$least" ] || exit 1
    done
done
