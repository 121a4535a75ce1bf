#!/usr/bin/env bash
# A device is lost and returns within one boot. The script shuts down ext4 on a loop device beside commits
# (EXT4_IOC_SHUTDOWN), kills the process, and mounts the device again: ENSILE_DEVICE_RUNS (100) runs at each level of
# durability. Then it kills a process-safe process in a mount namespace of its own, as often, and opens the folder in
# another namespace. By hand, as root.
#
# A run fails if the recovered state never existed, if a strict result is lost, or if a process-safe result is lost
# without a report.
set -euo pipefail
cd "$(dirname "$0")/.."

runs="${ENSILE_DEVICE_RUNS:-100}"
RANDOM="${ENSILE_DEVICE_SEED:-1}"
[ -n "${ENSILE_CHAIN:-}" ] || cargo build --profile release-plain --package ensile-bench --example chain
chain="${ENSILE_CHAIN:-${CARGO_TARGET_DIR:-$PWD/target}/release-plain/examples/chain}"
work="$(mktemp -d /dev/shm/ensile-device.XXXXXX)"
mount="$work/mount"
mkdir "$mount"
clean() {
    pkill -KILL -f "$chain write $mount" 2>/dev/null || true
    umount "$mount" 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT

# shut_down FLAGS: 0 writes everything first, 1 the journal, 2 nothing.
shut_down() {
    python3 -c 'import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack("I", int(sys.argv[2])))' "$mount" "$1"
}

# nap MILLISECONDS
nap() { sleep "$(printf '0.%03d' "$1")"; }

# look LEVEL RUN: opens the folder again, and compares with the acknowledged numbers.
look() {
    local found code=0 acknowledged last proof
    found="$("$chain" read "$mount/data" 2>"$work/errors")" || code=$?
    acknowledged="$(grep -x '[0-9]*' "$work/acknowledged" | sort -n | tail -1)"
    # The last line may be cut by the kill.
    read -r last proof <<<"$found"
    [ "$code" = 0 ] || { echo "$1, run $2: exit code $code: $found $(cat "$work/errors")"; return 1; }
    if [ "$last" -lt "${acknowledged:-0}" ]; then
        lost=$((lost + 1))
        case "$1 $proof" in
        "relaxed "* | "process not-proven") ;;
        *) echo "$1, run $2: $acknowledged was acknowledged, and $last is the last one, $proof"; return 1 ;;
        esac
    fi
}

truncate --size 256M "$work/device"
for level in strict relaxed process; do
    lost=0
    for run in $(seq "$runs"); do
        mkfs.ext4 -q -F "$work/device"
        mount -o loop "$work/device" "$mount"
        "$chain" write "$mount/data" "$level" >"$work/acknowledged" 2>/dev/null &
        writer=$!
        nap $((60 + RANDOM % 240))
        shut_down $((RANDOM % 3))
        nap $((RANDOM % 60))
        kill -KILL "$writer" 2>/dev/null || true
        wait "$writer" 2>/dev/null || true
        umount "$mount"
        mount -o loop "$work/device" "$mount"
        if [ -e "$mount/data/MANIFEST" ]; then
            look "$level" "$run"
        elif grep -qx '[0-9]*' "$work/acknowledged"; then
            echo "$level, run $run: results were acknowledged, and there is no database"
            exit 1
        fi
        umount "$mount"
    done
    printf '== %s: %s runs, %s of which lost results that the level may lose\n' "$level" "$runs" "$lost"
done

mkfs.ext4 -q -F "$work/device"
mount -o loop "$work/device" "$mount"
lost=0
for run in $(seq "$runs"); do
    rm -rf "$mount/data"
    unshare --mount "$chain" write "$mount/data" process >"$work/acknowledged" 2>/dev/null &
    writer=$!
    nap $((60 + RANDOM % 240))
    kill -KILL "$writer"
    wait "$writer" 2>/dev/null || true
    look process "$run"
done
[ "$lost" = 0 ] || { echo "killed in a mount namespace: $lost runs lost process-safe results"; exit 1; }
printf '== killed in a mount namespace: %s runs, nothing lost\n' "$runs"
