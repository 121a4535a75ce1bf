#!/usr/bin/env bash
# Shared writes: atomics and locks that count which cache lines a transaction writes (feature `counted`). What only reads
# must write no line that another worker touches; what writes, only what docs/results/shared-writes.md lists. The feature
# `laboratory` has the variant whose TIDs come from one counter: every commit of it must be seen to write that line.
# In the same build, all unit tests of the bench and of the papers, and the tests of the engine's variants.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --package ensile-base --features counted --lib access_trace
cargo test --package ensile-engine --package ensile-bench --package ensile-papers --test variants --lib \
    --features ensile-engine/laboratory,ensile-bench/laboratory,ensile-bench/peer-keys,ensile-papers/counted
