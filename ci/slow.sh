#!/usr/bin/env bash
# No test may depend on how fast the machine is: all of them beside eight busy processes, and beside processes that write
# and sync. `slow.sh busy [runs]` or `slow.sh disk [runs]`; both, five runs and one, without arguments. By hand.
set -euo pipefail
cd "$(dirname "$0")/.."

helpers=()
folder="$(mktemp -d)"
stop() {
    [ ${#helpers[@]} = 0 ] || kill "${helpers[@]}" 2>/dev/null || true
    wait
    helpers=()
}
trap 'stop; rm -rf "$folder"' EXIT

spin() { while :; do :; done; }
write() { while :; do dd if=/dev/zero of="$folder/$1" bs=64k count=512 conv=fsync status=none; done; }

# beside KIND RUNS: whole runs of the tests beside the helpers of one kind.
beside() {
    cargo test --workspace --no-run
    for _ in $(seq "$2"); do
        for at in 1 2 3 4 5 6 7 8; do
            if [ "$1" = busy ]; then spin & else write "$at" & fi
            helpers+=($!)
        done
        cargo test --workspace
        stop
    done
    printf '== %s: %s whole runs\n' "$1" "$2"
}

case "${1:-both}" in
both) beside busy 5 && beside disk 1 ;;
busy | disk) beside "$1" "${2:-1}" ;;
*) echo "usage: $0 [busy|disk [runs]]" >&2 && exit 2 ;;
esac
