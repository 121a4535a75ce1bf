#!/usr/bin/env bash
# Damages a whole data folder everywhere: every bit flipped, every length of every file, every sector zeroed, every file
# missing, exchanged, stale or foreign. More than an hour on two quiet cores; the ordinary tests draw a sample.
# ENSILE_FOLDERS (all) takes the folders whose names have a word: "pictures" is two thirds of it.
# Before that, random damages of 31 kinds to random databases: how many is ENSILE_DAMAGES (20000: half a minute).
set -euo pipefail
cd "$(dirname "$0")/.."

ENSILE_DAMAGES="${ENSILE_DAMAGES:-20000}" cargo test --profile release-plain --package ensile-durability --test durability -- \
    --nocapture campaign::random
ENSILE_DAMAGE=all cargo test --profile release-plain --package ensile-durability --test durability -- --nocapture matrix \
    archives::unlisted
