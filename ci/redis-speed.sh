#!/usr/bin/env bash
# CPU of `ensile serve` beside Debian's redis-server: user and system time of the whole process a request, from
# /proc, in a closed loop of 50 clients. Both servers hold the same keys, have no log, and take turns within a round; a
# ratio is Ensile / redis. Prints the median of the rounds, and all rounds. Other builds of Ensile may be compared too.
# Usage: ci/redis-speed.sh [SERVER..]   SERVER: a built `ensile` [default: target/release/ensile, built here]
# ENSILE_ROUNDS (5), ENSILE_KEYS (1,000,000), ENSILE_REQUESTS at P=1 (200,000; five times as many at P=16),
# ENSILE_LOOPS (1), and ENSILE_REDIS_PORT for the first port (16380).
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    printf 'redis-speed: %s\n' "$*" >&2
    exit 1
}

for tool in redis-server redis-benchmark redis-cli; do
    command -v "$tool" >/dev/null || die "no $tool: run 'apt-get install redis-server redis-tools' first"
done
rounds=${ENSILE_ROUNDS:-5} keys=${ENSILE_KEYS:-1000000} requests=${ENSILE_REQUESTS:-200000}
if [ $# = 0 ]; then
    cargo build --quiet --release -p ensile-cli
    set -- "${CARGO_TARGET_DIR:-target}/release/ensile"
fi

folder=$(mktemp -d)
names=() servers=() ports=()
end() {
    for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT

# begin NAME COMMAND..: starts a server at the next port, given as $port.
port=${ENSILE_REDIS_PORT:-16380}
begin() {
    names+=("$1") ports+=("$port")
    shift
    "$@" >"$folder/$port.log" 2>&1 &
    servers+=($!)
    for _ in $(seq 200); do
        if [ "$(redis-cli -p "$port" PING 2>/dev/null)" = PONG ]; then break; fi
        kill -0 "${servers[-1]}" 2>/dev/null || die "a server has ended: $(tail -n 3 "$folder/$port.log")"
        sleep 0.1
    done
    port=$((port + 1))
}
begin redis redis-server --port "$port" --save '' --appendonly no --dir "$folder"
for ensile in "$@"; do
    begin "$ensile" "$ensile" serve --data "$folder/$port" --port "$port" --loops "${ENSILE_LOOPS:-1}" --appendonly no
done

# load PORT TEST PIPELINE REQUESTS
load() {
    redis-benchmark -p "$1" -t "$2" -P "$3" -n "$4" -r "$keys" -d 100 -c 50 -q >/dev/null 2>&1 ||
        die "redis-benchmark has failed at port $1"
}
# User and system time of a process in ticks.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

for port in "${ports[@]}"; do load "$port" set 64 $((4 * keys)); done
tick_micros=$((1000000 / $(getconf CLK_TCK)))
for _ in $(seq "$rounds"); do
    for pipeline in 1 16; do
        count=$((pipeline == 1 ? requests : 5 * requests))
        for test in get set; do
            for at in "${!servers[@]}"; do
                before=$(ticks "${servers[at]}")
                load "${ports[at]}" "$test" "$pipeline" "$count"
                after=$(ticks "${servers[at]}")
                micros=$(awk "BEGIN { print ($after - $before) * $tick_micros / $count }")
                [ "$at" = 0 ] && redis=$micros
                echo "$pipeline $test $at $micros $(awk "BEGIN { print $micros / $redis }")" >>"$folder/figures"
            done
        done
    done
done

printf '%-4s %-4s %-34s %8s %7s  %s\n' P test server us ratio 'all ratios'
for pipeline in 1 16; do
    for test in get set; do
        for at in "${!servers[@]}"; do
            grep "^$pipeline $test $at " "$folder/figures" >"$folder/row"
            median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
            micros=$(awk '{ print $4 }' "$folder/row" | median)
            ratio=$(awk '{ print $5 }' "$folder/row" | median)
            all=$(awk '{ printf "%.2f ", $5 }' "$folder/row")
            printf '%-4s %-4s %-34s %8.2f %7.2f  %s\n' "$pipeline" "$test" "${names[at]}" "$micros" "$ratio" "$all"
        done
    done
done
