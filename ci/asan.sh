#!/usr/bin/env bash
# Use after free, out of bounds, leaks: AddressSanitizer over the crates that use `unsafe` (or those named as arguments).
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/nightly.sh

run_sanitized address "$@"
