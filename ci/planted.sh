#!/usr/bin/env bash
# Plants the bugs of `planted/` in a copy of the tree, one at a time, and sees the command of each fail
# (docs/internals/protocols/proof.md). Plants bugs whose code has changed since the last sighting, so a run goes on
# after an earlier run.
#   bash ci/planted.sh [NAME..]           stale bugs, of those whose names contain a NAME
#   bash ci/planted.sh --all [NAME..]     fresh bugs too
#   bash ci/planted.sh --seconds N        begins no bug after N seconds, and prints how many are left
#   bash ci/planted.sh --unasserted       the simulation's bugs, in a build without debug assertions
# ENSILE_SECONDS (60): seconds of the simulation's hunt for each bug.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo xtask planted "$@"
