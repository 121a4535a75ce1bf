#!/usr/bin/env bash
# The runs that take too long for .ci/run, one after the other, for a release: some hours in all. Each is a script of its
# own, and the first that fails ends the run. The sanitizers need a nightly toolchain, and `device` needs root.
#   bash ci/long.sh [NAME..]     all, or those of these names, in the order below
set -euo pipefail
cd "$(dirname "$0")/.."

# Each name, and its command.
RUNS=(
    "clients     bash ci/clients.sh"
    "libraries   bash ci/server-clients.sh"
    "connections bash ci/connections.sh"
    "copies      bash ci/copies.sh"
    "crashes     bash ci/crashes.sh"
    "damage      bash ci/damage.sh"
    "kills       bash ci/object_kills.sh"
    "server      bash ci/server-kills.sh 1 2"
    "migration   bash ci/redis-migration.sh"
    "histories   bash ci/histories.sh"
    "fuzz        bash ci/fuzz.sh 600"
    "peers       bash ci/peers.sh"
    "soak        bash ci/soak.sh"
    "slow        bash ci/slow.sh"
    "device      bash ci/device.sh"
    "planted     bash ci/planted.sh"
    "asan        bash ci/asan.sh"
    "tsan        bash ci/tsan.sh"
)

names=()
for run in "${RUNS[@]}"; do
    names+=("${run%% *}")
done
for name in "$@"; do
    if [[ " ${names[*]} " != *" $name "* ]]; then
        echo "usage: bash ci/long.sh [NAME..], of ${names[*]}" >&2
        exit 2
    fi
done
[ $# -gt 0 ] || set -- "${names[@]}"

SECONDS=0
for run in "${RUNS[@]}"; do
    read -r name command <<<"$run"
    [[ " $* " == *" $name "* ]] || continue
    begin=$SECONDS
    printf '\n== %s\n' "$name"
    # shellcheck disable=SC2086  # a script, and its arguments
    if ! $command; then
        printf '== %s: FAILED after %d s (of %d s in all)\n' "$name" $((SECONDS - begin)) "$SECONDS"
        exit 1
    fi
    printf '== %s: %d s\n' "$name" $((SECONDS - begin))
done
printf '\n== all runs: %d s\n' "$SECONDS"
