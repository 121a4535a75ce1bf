#!/usr/bin/env bash
# Schedules: shuttle runs whole structures under many interleavings. They are sequentially consistent ones only: what
# passes here says nothing about memory orders, which are loom's part.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/checked-crates.sh

run_models shuttle 'shuttle::\(check\|Runner\|PortfolioRunner\|replay\)'
