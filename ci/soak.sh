#!/usr/bin/env bash
# A long run under shuttle's schedules. The index: ENSILE_TIMES (4) as many of each of its tests as ci/shuttle.sh runs. The
# whole engine: ENSILE_SCHEDULES (50,000) of each of three: commits in memory, lives with crashes, and lives with
# checkpoints and crashes, from ENSILE_SEED (0) on; a failure names the seed that makes it come again.
# `ci/soak.sh TEST` runs the engine's tests of that name alone.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -le 1 ] || {
    echo "usage: bash ci/soak.sh [TEST]" >&2
    exit 2
}
export ENSILE_SCHEDULES="${ENSILE_SCHEDULES:-50000}" ENSILE_TIMES="${ENSILE_TIMES:-4}" ENSILE_SEED="${ENSILE_SEED:-0}"
# Before the first of them is built and run, not when its turn comes.
for setting in ENSILE_SCHEDULES:1 ENSILE_TIMES:1 ENSILE_SEED:0; do
    name="${setting%:*}"
    if ! [[ "${!name}" =~ ^(0|[1-9][0-9]{0,17})$ ]] || [ "${!name}" -lt "${setting#*:}" ]; then
        echo "$name is a number from ${setting#*:} on, and not '${!name}'" >&2
        exit 2
    fi
done
export RUSTFLAGS="--cfg shuttle ${RUSTFLAGS:-}"
cargo=(cargo test --profile release-plain --config 'profile.release-plain.debug-assertions=true'
    --target-dir "${CARGO_TARGET_DIR:-target}/shuttle")
said="$(mktemp)"
trap 'rm -f "$said"' EXIT

# soak WHAT..: tests, of which one must be there, and all pass.
soak() {
    "${cargo[@]}" "$@" | tee "$said"
    grep --quiet --extended-regexp '^test result: ok\. [1-9][0-9]* passed' "$said" || {
        echo "$*: no test ran" >&2
        exit 1
    }
}

[ $# -gt 0 ] || soak --package ensile-index --lib tree::shuttled
soak --package ensile-engine --test shuttle_simulation "$@"
