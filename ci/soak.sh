#!/usr/bin/env bash
# A long run under shuttle's schedules. The index: ENSILE_TIMES (4) as many of each of its tests as ci/shuttle.sh runs. The
# whole engine: ENSILE_SCHEDULES (50,000) of commits in memory and as many of lives with crashes, from ENSILE_SEED (0) on; a
# failure names the seed that makes it come again. `ci/soak.sh TEST` runs the engine's tests of that name alone.
set -euo pipefail
cd "$(dirname "$0")/.."

export ENSILE_SCHEDULES="${ENSILE_SCHEDULES:-50000}" ENSILE_TIMES="${ENSILE_TIMES:-4}"
export RUSTFLAGS="--cfg shuttle ${RUSTFLAGS:-}"
cargo=(cargo test --profile release-plain --config 'profile.release-plain.debug-assertions=true'
    --target-dir "${CARGO_TARGET_DIR:-target}/shuttle")
[ $# -gt 0 ] || "${cargo[@]}" --package ensile-index --lib tree::shuttled
"${cargo[@]}" --package ensile-engine --test shuttle_simulation "$@"
