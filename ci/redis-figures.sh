#!/usr/bin/env bash
# Figures of `ensile serve` beside Debian's redis-server, which take turns within a round: durable SET, a transfer
# between two of a million accounts as a script and as a procedure, sorted sets, one counter and one list for all
# clients, a restart, and a checkpoint beside writes. CPU is the user and system time of the whole server.
# Usage: ci/redis-figures.sh [durable|transfer|sorted|contended|restart|checkpoint ..]   all by default
# ENSILE_ROUNDS (3), ENSILE_KEYS (10,000,000; of the restart and the checkpoint), ENSILE_FIGURES_FOLDER (a temporary
# folder): its disk counts. ENSILE_SERVER, ENSILE_PROCEDURES: programs, built here by default.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    printf 'redis-figures: %s\n' "$*" >&2
    exit 1
}

for tool in redis-server redis-benchmark redis-cli python3; do
    command -v "$tool" >/dev/null || die "no $tool: run 'apt-get install redis-server redis-tools python3' first"
done
rounds=${ENSILE_ROUNDS:-3} keys=${ENSILE_KEYS:-10000000}
[ $# -gt 0 ] || set -- durable transfer sorted contended restart checkpoint
if [ -z "${ENSILE_SERVER:-}" ]; then
    cargo build --quiet --release -p ensile-cli
fi
ensile=${ENSILE_SERVER:-${CARGO_TARGET_DIR:-target}/release/ensile}
if [ -z "${ENSILE_PROCEDURES:-}" ]; then
    cargo build --quiet --release -p ensile-server --example procedures
fi
procedures=${ENSILE_PROCEDURES:-${CARGO_TARGET_DIR:-target}/release/examples/procedures}

folder=$(mktemp -d "${ENSILE_FIGURES_FOLDER:-${TMPDIR:-/tmp}}/redis-figures.XXXXXX")
port=${ENSILE_REDIS_PORT:-16480}
declare -A pids=() ports=()
end() {
    for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT

# begin NAME COMMAND..: starts a server; PORT and DATA in the command are its port and its folder.
begin() {
    local name="$1" words=()
    shift
    ports[$name]=$port
    mkdir -p "$folder/$name"
    for word in "$@"; do
        word=${word//PORT/$port}
        words+=("${word//DATA/$folder/$name}")
    done
    "${words[@]}" >"$folder/$name.log" 2>&1 &
    pids[$name]=$!
    port=$((port + 1))
    ready "$name"
}

# ready NAME: waits until the server has loaded its data.
ready() {
    until [ "$(redis-cli -p "${ports[$1]}" EXISTS none 2>/dev/null)" = 0 ]; do
        kill -0 "${pids[$1]}" 2>/dev/null || die "$1 has ended: $(tail -n 3 "$folder/$1.log")"
        sleep 0.02
    done
}

stop() {
    kill -9 "${pids[$1]}" && wait "${pids[$1]}" 2>/dev/null || true
    unset "pids[$1]"
    rm -rf "${folder:?}/$1"
}

redis() { begin "$1" redis-server --port PORT --dir DATA --save '' "${@:2}"; }
ensile() { begin "$1" "$ensile" serve --port PORT --data DATA "${@:2}"; }

ticks() { awk '{ print $14 + $15 }' "/proc/${pids[$1]}/stat"; }

# row FIGURE NAME VALUE: a value of one round.
row() { echo "$2 $3" >>"$folder/$1.rows"; }

# measure FIGURE NAME COUNT ARGUMENT..: runs redis-benchmark with COUNT requests. Notes CPU a request in us, the rate,
# and the 99th percentile in ms.
measure() {
    local figure="$1" name="$2" count="$3" before after line
    shift 3
    before=$(ticks "$name")
    line=$(redis-benchmark -p "${ports[$name]}" -n "$count" --csv "$@" 2>/dev/null | tail -n 1) ||
        die "redis-benchmark has failed: $*"
    after=$(ticks "$name")
    row "$figure.cpu" "$name" "$(awk "BEGIN { print ($after - $before) * 1000000 / $(getconf CLK_TCK) / $count }")"
    # "test","rps","avg","min","p50","p95","p99","max"
    row "$figure.rate" "$name" "$(echo "$line" | awk -F'","' '{ print $(NF - 6) }')"
    row "$figure.p99" "$name" "$(echo "$line" | awk -F'","' '{ print $(NF - 1) }')"
}

# show FIGURE NAME BASE [UNIT]: the median of NAME, and the median of the ratios to BASE in the same round.
show() {
    awk -v figure="$1" -v name="$2" -v base="$3" -v unit="${4:-}" '
        $1 == name { mine[++n] = $2 }
        $1 == base { other[++m] = $2 }
        function median(list, size,    at, b, swap) {
            for (at = 1; at <= size; at++) for (b = at + 1; b <= size; b++)
                if (list[b] + 0 < list[at] + 0) { swap = list[at]; list[at] = list[b]; list[b] = swap }
            return list[int((size + 1) / 2)]
        }
        END {
            for (at = 1; at <= n; at++) { ratio[at] = mine[at] / other[at]; each = each sprintf("%.2f ", ratio[at]) }
            printf "%-22s %-14s %12.2f %-5s %6.2f of %s  (%s)\n", figure, name, median(mine, n), unit, median(ratio, n),
                base, each
        }' "$folder/$1.rows"
}

durable() {
    redis redis --appendonly yes --appendfsync always
    ensile ensile
    for _ in $(seq "$rounds"); do
        for name in redis ensile; do
            measure durable-1 "$name" 50000 -t set -d 100 -r 1000000 -c 50 -P 1
            measure durable-16 "$name" 400000 -t set -d 100 -r 1000000 -c 50 -P 16
        done
    done
    for pipeline in 1 16; do
        show "durable-$pipeline.rate" ensile redis /s
        show "durable-$pipeline.p99" ensile redis ms
        show "durable-$pipeline.cpu" ensile redis us
    done
    stop redis
    stop ensile
}

# accounts NAME: a million accounts a:000000000000 ..
accounts() {
    python3 -c '
import sys
for first in range(0, 1000000, 100):
    words = [b"MSET"]
    for at in range(first, first + 100): words += [b"a:%012d" % at, b"1000000"]
    sys.stdout.buffer.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
' | redis-cli -p "${ports[$1]}" --pipe >/dev/null
}

transfer() {
    local declared undeclared sha name
    declared="local left = redis.call('DECRBY', KEYS[1], ARGV[1])
if left < 0 then return redis.error_reply('POOR') end
redis.call('INCRBY', KEYS[2], ARGV[1])
return left"
    undeclared=${declared//KEYS\[1\]/ARGV[2]}
    undeclared=${undeclared//KEYS\[2\]/ARGV[3]}
    redis redis --appendonly yes --appendfsync always
    ensile ensile-1 --loops 1
    ensile ensile-2 --loops 2
    begin procedures "$procedures" DATA "127.0.0.1:PORT"
    for name in redis ensile-1 ensile-2 procedures; do accounts "$name"; done
    local pair=(a:__rand_int__ a:__rand_int__) load=(-r 1000000 -c 50 -P 16)
    for _ in $(seq "$rounds"); do
        for name in redis ensile-1 ensile-2; do
            sha=$(redis-cli -p "${ports[$name]}" SCRIPT LOAD "$declared")
            measure transfer "$name" 400000 "${load[@]}" EVALSHA "$sha" 2 "${pair[@]}" 1
            sha=$(redis-cli -p "${ports[$name]}" SCRIPT LOAD "$undeclared")
            measure undeclared "$name" 400000 "${load[@]}" EVALSHA "$sha" 0 1 "${pair[@]}"
        done
        measure transfer procedures 400000 "${load[@]}" FCALL transfer 2 "${pair[@]}" 1
    done
    show transfer.cpu ensile-1 redis us
    show transfer.cpu procedures redis us
    show transfer.rate ensile-1 redis /s
    show undeclared.cpu ensile-2 ensile-1 us
    show undeclared.rate ensile-2 ensile-1 /s
    for name in redis ensile-1 ensile-2 procedures; do stop "$name"; done
}

sorted() {
    local name
    redis redis
    ensile ensile --loops 1 --appendonly no
    for name in redis ensile; do
        python3 -c '
import random, sys
order = list(range(1000000))
random.Random(1).shuffle(order)
for first in range(0, 1000000, 100):
    words = [b"ZADD", b"z"]
    for at in order[first:first + 100]: words += [b"%d" % (at * 7919 % 1000003), b"m:%012d" % at]
    sys.stdout.buffer.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
' | redis-cli -p "${ports[$name]}" --pipe >/dev/null
    done
    local load=(-r 1000000 -c 50 -P 16)
    for _ in $(seq "$rounds"); do
        for name in redis ensile; do
            measure zadd "$name" 200000 "${load[@]}" ZADD z __rand_int__ m:__rand_int__
            measure zrank "$name" 200000 "${load[@]}" ZRANK z m:__rand_int__
            measure zrange "$name" 200000 "${load[@]}" ZRANGE z __rand_int__ 1000000 BYSCORE LIMIT 0 10
        done
    done
    for figure in zadd zrank zrange; do show "$figure.cpu" ensile redis us; done
    # The longest of 10,000 pings around the deletion is the time for which the deletion holds its loop.
    for name in redis ensile; do
        python3 - "${ports[$name]}" <<'PYTHON' | while read -r millis; do row delete.stall "$name" "$millis"; done
import socket, sys, threading, time
def connect():
    return socket.create_connection(("127.0.0.1", int(sys.argv[1])))
longest, ended = 0.0, False
def ping():
    global longest
    client = connect()
    while not ended:
        begin = time.monotonic()
        client.sendall(b"PING\r\n")
        client.recv(100)
        longest = max(longest, time.monotonic() - begin)
thread = threading.Thread(target=ping)
thread.start()
time.sleep(0.2)
client = connect()
client.sendall(b"DEL z\r\n")
assert client.recv(100) == b":1\r\n"
time.sleep(1)
ended = True
thread.join()
print(longest * 1000)
PYTHON
    done
    show delete.stall ensile redis ms
    for name in redis ensile; do stop "$name"; done
}

contended() {
    local name
    redis redis --appendonly yes --appendfsync everysec
    ensile ensile --loops 2 --appendfsync everysec
    for _ in $(seq "$rounds"); do
        for name in redis ensile; do
            measure counter "$name" 300000 -c 50 INCR counter
            # A client pushes and another client pops: the list stays short.
            redis-benchmark -p "${ports[$name]}" -c 25 -n 150000 BRPOP list 0 >/dev/null 2>&1 &
            local popper=$!
            measure list "$name" 150000 -c 25 LPUSH list 0123456789
            wait "$popper"
        done
    done
    show counter.rate ensile redis /s
    show list.rate ensile redis /s
    for name in redis ensile; do stop "$name"; done
}

# fill NAME: keys of 16 bytes with 100 bytes, every tenth with an expiry.
fill() {
    python3 -c '
import sys
value, out = b"v" * 100, sys.stdout.buffer
for first in range(0, int(sys.argv[1]), 1000):
    lines = []
    for at in range(first, first + 1000):
        key = b"k:%014d" % at
        if at % 10 == 0:
            lines.append(b"*5\r\n$3\r\nSET\r\n$16\r\n%s\r\n$100\r\n%s\r\n$2\r\nEX\r\n$7\r\n1000000\r\n" % (key, value))
        else:
            lines.append(b"*3\r\n$3\r\nSET\r\n$16\r\n%s\r\n$100\r\n%s\r\n" % (key, value))
    out.write(b"".join(lines))
' "$keys" | redis-cli -p "${ports[$1]}" --pipe >/dev/null
}

resident() { awk '/^VmRSS/ { printf "%d\n", $2 * 1024 }' "/proc/${pids[$1]}/status"; }

restart() {
    local begin first
    ensile restart --appendfsync everysec
    first=$(resident restart)
    fill restart
    echo "resident bytes a key: $((($(resident restart) - first) / keys))"
    for _ in $(seq "$rounds"); do
        redis-cli -p "${ports[restart]}" SHUTDOWN >/dev/null 2>&1 || true
        wait "${pids[restart]}" 2>/dev/null || true
        begin=$(date +%s.%N)
        port=${ports[restart]}
        ensile restart --appendfsync everysec
        echo "restart with $keys keys: $(awk "BEGIN { print $(date +%s.%N) - $begin }") s," \
            "$(redis-cli -p "${ports[restart]}" DBSIZE) keys, $((($(resident restart) - first) / keys)) bytes a key"
    done
    stop restart
}

checkpoint() {
    local name saved
    redis redis
    ensile ensile --loops 1 --appendonly no
    for name in redis ensile; do
        fill "$name"
        redis-cli -p "${ports[$name]}" SAVE >/dev/null
    done
    for _ in $(seq "$rounds"); do
        for name in redis ensile; do
            measure "$name-quiet" "$name" 500000 -t set -d 100 -c 50 -r "$keys"
            saved=$(redis-cli -p "${ports[$name]}" LASTSAVE)
            local before
            before=$(resident "$name")
            redis-cli -p "${ports[$name]}" BGSAVE >/dev/null
            measure "$name-saving" "$name" 500000 -t set -d 100 -c 50 -r "$keys"
            row save.memory "$name" "$(((($(resident "$name") - before)) / 1048576))"
            until [ "$(redis-cli -p "${ports[$name]}" LASTSAVE)" != "$saved" ]; do sleep 0.1; done
        done
    done
    for name in redis ensile; do
        sed "s/^/quiet-/" "$folder/$name-quiet.rate.rows" >"$folder/$name.rate.rows"
        cat "$folder/$name-saving.rate.rows" >>"$folder/$name.rate.rows"
        show "$name.rate" "$name" "quiet-$name" /s
        sed "s/^/quiet-/" "$folder/$name-quiet.p99.rows" >"$folder/$name.p99.rows"
        cat "$folder/$name-saving.p99.rows" >>"$folder/$name.p99.rows"
        show "$name.p99" "$name" "quiet-$name" ms
    done
    show save.memory ensile redis MiB
    for name in redis ensile; do stop "$name"; done
}

for part in "$@"; do
    case "$part" in
    durable | transfer | sorted | contended | restart | checkpoint) ;;
    *) die "no figure is called $part" ;;
    esac
done
for part in "$@"; do
    printf '\n== %s\n' "$part"
    "$part"
done
