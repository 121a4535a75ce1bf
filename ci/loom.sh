#!/usr/bin/env bash
# Weak memory: loom explores every order that the memory model allows, on the shipped types behind `ensile_base::sync`.
# Kernels are small on purpose. LOOM_MAX_PREEMPTIONS bounds the schedules; unset it by hand for a full exploration.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/checked-crates.sh

export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS-3}"
[ -n "$LOOM_MAX_PREEMPTIONS" ] || unset LOOM_MAX_PREEMPTIONS
run_models loom 'loom::model'
