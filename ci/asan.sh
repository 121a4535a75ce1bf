#!/usr/bin/env bash
# Use after free, out of bounds, leaks: AddressSanitizer over the crates that use `unsafe` (or those named as arguments).
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/sanitizers.sh

# Two tests run by themselves. One measures what its process holds after a drop, and elsewhere the sanitizer holds back
# freed memory, so that it sees uses of it. The other leaks a snapshot on purpose.
apart=(a_parked_thread_does_not_keep_the_memory_of_a_dropped_database garbage_limit::a_leaked_snapshot_is_ended_too)
chosen=(--lib --tests -- "${apart[@]/#/--skip=}")
run_sanitized address "$@"
if [[ $# -eq 0 || " $* " == *" ensile-engine "* ]]; then
    chosen=(--test memory_of_a_dropped_database --test engine -- --exact "${apart[@]}")
    ASAN_OPTIONS="quarantine_size_mb=0:detect_leaks=0:${ASAN_OPTIONS:-}" run_sanitized address "$@"
fi
