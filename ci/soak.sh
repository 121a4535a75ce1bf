#!/usr/bin/env bash
# A long run of the whole engine under shuttle's schedules: ENSILE_SCHEDULES of each kind (50,000, so 100,000 in all), from
# ENSILE_SEED on. A failure names the seed that makes it come again.
set -euo pipefail
cd "$(dirname "$0")/.."

export ENSILE_SCHEDULES="${ENSILE_SCHEDULES:-50000}" RUSTFLAGS="--cfg shuttle ${RUSTFLAGS:-}"
cargo test --profile release-plain --config 'profile.release-plain.debug-assertions=true' \
    --target-dir "${CARGO_TARGET_DIR:-target}/shuttle" --package ensile-engine --test shuttle_simulation
