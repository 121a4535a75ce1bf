#!/usr/bin/env bash
# `ensile serve` with 10,000 idle clients, without descriptors, and with clients that never read: the memory of an idle
# client, and the longest wait of another client. Prints the figures. Needs 10,100 descriptors (`ulimit -Hn`) and Debian's
# util-linux. Half a minute, without the build.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --quiet -p ensile-cli --test cli connections -- --ignored --nocapture --test-threads 1 "$@"
