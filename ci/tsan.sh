#!/usr/bin/env bash
# Data races: ThreadSanitizer over the crates that use `unsafe` (or those named as arguments).
#
# It does not know stand-alone fences, which order the index's reads: built with `--cfg tsan`, loads before such a fence
# order by themselves, and the fence is left to loom. What is still reported is a race. Nothing is silenced by a
# suppressions file.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/nightly.sh

export RUSTFLAGS="--cfg tsan ${RUSTFLAGS:-}"
run_sanitized thread "$@"
