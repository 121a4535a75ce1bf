#!/usr/bin/env bash
# Damages a whole data folder everywhere: every bit flipped, every length of every file, every sector zeroed, every file
# missing, exchanged, stale or foreign. About a quarter of an hour on two quiet cores; the ordinary tests draw a sample.
set -euo pipefail
cd "$(dirname "$0")/.."

ENSILE_DAMAGE=all cargo test --profile release-plain --package ensile-durability --test durability -- --nocapture matrix
