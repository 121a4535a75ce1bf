#!/usr/bin/env bash
# Data races: ThreadSanitizer over the crates that use `unsafe` (or those named as arguments).
#
# It does not understand stand-alone fences, so a report about data that only a `fence` orders must be judged by hand:
# loom is the authority on those. Nothing is silenced by a suppressions file.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/nightly.sh

run_sanitized thread "$@"
