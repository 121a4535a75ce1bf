#!/usr/bin/env bash
# Client libraries and tools of redis against `ensile serve`, as their users have them: values, pipelines, MULTI and
# WATCH, scripts, messages, blocking pops, scans, and new connections behind CLIENT KILL; job queues run jobs. A program
# for each library ends with an error at any wrong value. The libraries come from PyPI, npm, the Go module proxy and
# crates.io into a temporary folder. Three minutes, without the build.
#   bash ci/server-clients.sh [redis_tools|redis_py|rq|celery|ioredis|node_redis|bullmq|go_redis|redis_rs..]
# ENSILE_SERVER: a built `ensile` [default: target/debug/ensile, built here]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=ci/clients/tools.sh
. ci/clients/tools.sh

RQ_VERSION=3.0.0
CELERY_VERSION=5.7.0
BULLMQ_VERSION=6.7.0
# BullMQ takes the version from its program.
BULLMQ_IOREDIS_VERSION=5.11.1
all="redis_tools redis_py rq celery ioredis node_redis bullmq go_redis redis_rs"

# shellcheck disable=SC2086  # names without spaces
[ $# -gt 0 ] || set -- $all
for library in "$@"; do
    case "$library" in
    redis_tools)
        need redis-cli "install Debian's redis-tools"
        need redis-benchmark "install Debian's redis-tools"
        ;;
    redis_py | rq | celery) need_python ;;
    ioredis | node_redis | bullmq) need_node ;;
    go_redis) need_go ;;
    redis_rs) ;;
    *) die "no library $library: $all" ;;
    esac
done
need cargo "install Rust by rustup (https://rustup.rs)"

begin_folder
if [ -z "${ENSILE_SERVER:-}" ]; then
    cargo build --quiet --package ensile-cli
    ENSILE_SERVER="${CARGO_TARGET_DIR:-$PWD/target}/debug/ensile"
fi
begin_server "$ENSILE_SERVER" serve --data "$folder/data" --port 0 --loops 2

# cli_says WANTED ARGUMENT..: compares the output of redis-cli.
cli_says() {
    local got
    got="$(redis-cli -p "$port" "${@:2}" 2>&1)"
    [ "$got" = "$1" ] || die "redis-cli ${*:2}: '$got', not '$1'"
}

# cli_has WANTED ARGUMENT..: looks for a text in the output of redis-cli.
cli_has() {
    local got
    got="$(redis-cli -p "$port" "${@:2}" 2>&1)"
    case "$got" in *"$1"*) ;; *) die "redis-cli ${*:2}: no '$1' in '$got'" ;; esac
}

run_redis_tools() {
    local output
    cli_says OK FLUSHALL
    cli_says 42 EVAL 'return ARGV[1] * 2' 0 21
    printf 'MULTI\nSET k 1\nINCR k\nEXEC\nGET k\n' | redis-cli -p "$port" >"$folder/cli"
    [ "$(tr '\n' ' ' <"$folder/cli")" = "OK QUEUED QUEUED OK 2 2 " ] || die "redis-cli with MULTI: $(cat "$folder/cli")"
    printf 'SET pipe:%s x\r\n' $(seq 1000) | redis-cli -p "$port" --pipe >"$folder/cli"
    grep -q 'errors: 0, replies: 1000' "$folder/cli" || die "redis-cli --pipe: $(cat "$folder/cli")"
    printf 'return redis.call("get", KEYS[1])' >"$folder/script.lua"
    cli_says 2 --eval "$folder/script.lua" k ,
    cli_says PONG -3 PING
    [ "$(redis-cli -p "$port" --scan --pattern 'pipe:*' | sort -u | wc -l)" = 1000 ] || die "redis-cli --scan"
    redis-cli -p "$port" RPUSH list a b c >/dev/null
    cli_has 'Biggest   list found' --bigkeys
    cli_has 'Biggest string found' --memkeys
    cli_has 'redis_version:7' INFO server
    cli_has 'summary' COMMAND DOCS GET
    cli_says OK CONFIG SET slowlog-max-len 64
    # Every test of redis-benchmark, with single requests and in pipelines.
    for pipeline in 1 16; do
        output="$(run redis-benchmark -p "$port" -n 2000 -r 1000 -c 20 -P "$pipeline" -q 2>&1)" ||
            die "redis-benchmark -P $pipeline: $output"
        ! grep -qi 'err' <<<"$output" || die "redis-benchmark -P $pipeline: $output"
        for test in PING_INLINE PING_MBULK SET GET INCR LPUSH RPUSH LPOP RPOP SADD HSET SPOP ZADD ZPOPMIN LRANGE_600 MSET; do
            grep -q "$test" <<<"$output" || die "redis-benchmark -P $pipeline has no $test: $output"
        done
    done
    cli_says OK FLUSHALL
    echo "redis-tools: redis-cli and all tests of redis-benchmark"
}

# run_python LIBRARY PROGRAM PACKAGE..
run_python() {
    install_python "$1" "${@:3}"
    (cd ci/server-clients && run "$folder/$1/bin/python" "$2" "$port")
}

for library in "$@"; do
    case "$library" in
    redis_tools) run_redis_tools ;;
    redis_py) run_python redis_py redis_py.py "redis==$REDIS_PY_VERSION" ;;
    rq) PYTHONPATH=. run_python rq rq_jobs.py "rq==$RQ_VERSION" "redis==$REDIS_PY_VERSION" ;;
    celery) run_python celery celery_tasks.py "celery[redis]==$CELERY_VERSION" ;;
    ioredis)
        install_npm ci/server-clients/ioredis.js "ioredis@$IOREDIS_VERSION"
        run node "$folder/ioredis/ioredis.js" "$port"
        ;;
    node_redis)
        install_npm ci/server-clients/node_redis.js "redis@$NODE_REDIS_VERSION"
        run node "$folder/node_redis/node_redis.js" "$port"
        ;;
    bullmq)
        install_npm ci/server-clients/bullmq.js "bullmq@$BULLMQ_VERSION" "ioredis@$BULLMQ_IOREDIS_VERSION"
        run node "$folder/bullmq/bullmq.js" "$port"
        ;;
    go_redis)
        install_go ci/server-clients/go_redis.go "github.com/redis/go-redis/v9@$GO_REDIS_VERSION"
        run "$folder/go_redis/clients" "$port"
        ;;
    redis_rs)
        mkdir "$folder/redis_rs"
        cp ci/server-clients/redis_rs.rs "$folder/redis_rs/"
        cp ci/server-clients/redis_rs.toml "$folder/redis_rs/Cargo.toml"
        (cd "$folder/redis_rs" && CARGO_TARGET_DIR="$folder/redis_rs/target" cargo build --quiet) ||
            die "redis-rs cannot be built"
        run "$folder/redis_rs/target/debug/redis_rs" "$port"
        ;;
    esac
    kill -0 "$server" 2>/dev/null || die "the server ended"
done
