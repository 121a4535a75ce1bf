#!/usr/bin/env bash
# Kills the programs of an application's own objects in Rust, C and C++: KILLS (200) processes each. Their objects come and
# go, and their call-backs fail at an unknown object. Every change that was printed as durable must be there once, and every
# open must succeed. Some five minutes, most of them for the builds. By hand.
set -euo pipefail
cd "$(dirname "$0")/.."

export ENSILE_KILLS="${1:-200}"
cargo test --package ensile-objects --test process_kills -- --nocapture o10_
cargo test --package ensile-c --test programs -- --nocapture service::the_service_in
