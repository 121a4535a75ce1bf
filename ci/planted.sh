#!/usr/bin/env bash
# Plants the bugs of `planted/` in a copy of the tree, one at a time, and sees the command of each fail
# (docs/protocols/proof.md). Plants those whose code has changed since they were seen, and so goes on where it stopped.
#   bash ci/planted.sh [NAME..]          stale bugs, of those whose names contain a NAME
#   bash ci/planted.sh --all [NAME..]    the fresh ones too
#   bash ci/planted.sh --seconds N       begins no bug after N seconds, and prints how many are left
#   bash ci/planted.sh --unasserted      the simulation's bugs, in a build without debug assertions
# ENSILE_SECONDS (60) is the time for which the simulation hunts each.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo xtask planted "$@"
