#!/usr/bin/env bash
# Data races: ThreadSanitizer over the crates that use `unsafe` (or those named as arguments).
#
# It does not know stand-alone fences, which order the index's reads: built with `--cfg tsan`, loads before such a fence
# order by themselves, and the fence is left to loom. What is still reported is a race. Nothing is silenced by a
# suppressions file. Tests run one after the other: it does not see pages that are mapped without libc go, so another
# database that is given the same ones looks like a race with the one before.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/sanitizers.sh

# Forked children of a test start threads of their own, which the sanitizer takes for a mistake.
export TSAN_OPTIONS="die_after_fork=0 ${TSAN_OPTIONS:-}"
export RUSTFLAGS="--cfg tsan ${RUSTFLAGS:-}" RUST_TEST_THREADS=1
run_sanitized thread "$@"
