#!/usr/bin/env bash
# Client libraries of redis against the hash table: pipelines and transactions as each library sends them by default,
# with an unknown command, a name, another database, a password, and retries. No command of a failed transaction may be
# carried out. The libraries come from PyPI, npm and the Go module proxy into a temporary folder. A minute, without the
# build.
#   bash ci/clients.sh [redis_py|ioredis|node_redis|go_redis..]
set -euo pipefail
cd "$(dirname "$0")/.."

REDIS_PY_VERSION=8.1.0
IOREDIS_VERSION=6.0.0
NODE_REDIS_VERSION=6.3.1
GO_REDIS_VERSION=v9.23.0
# Longest run of the programs of a library, in seconds.
SECONDS_MAX=300

[ $# -gt 0 ] || set -- redis_py ioredis node_redis go_redis

die() {
    printf 'clients: %s\n' "$*" >&2
    exit 1
}

# need TOOL REMEDY
need() {
    command -v "$1" >/dev/null || die "no $1: $2"
}

for library in "$@"; do
    case "$library" in
    redis_py)
        need python3 "install Python 3 (Debian: python3, python3-venv)"
        python3 -c 'import ensurepip, venv' 2>/dev/null || die "python3 has no venv: install Debian's python3-venv"
        ;;
    ioredis | node_redis)
        need node "install Node.js, version 20 or later"
        need npm "install npm (Debian: npm)"
        [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || die "node is older than version 20"
        ;;
    go_redis) need go "install Go, version 1.24 or later" ;;
    *) die "no library $library: redis_py, ioredis, node_redis, go_redis" ;;
    esac
done
need cargo "install Rust by rustup (https://rustup.rs)"

folder="$(mktemp -d)"
server=''
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT

install_redis_py() {
    python3 -m venv "$folder/redis_py"
    "$folder/redis_py/bin/pip" install --quiet --disable-pip-version-check "redis==$REDIS_PY_VERSION"
}

# install_npm PACKAGE@VERSION
install_npm() {
    npm install --silent --no-audit --no-fund --prefix "$folder/${library}" "$1"
    cp "ci/clients/$library.js" "$folder/$library/"
}

install_go_redis() {
    mkdir "$folder/go_redis"
    cp ci/clients/go_redis.go "$folder/go_redis/main.go"
    (cd "$folder/go_redis" && go mod init clients && go get "github.com/redis/go-redis/v9@$GO_REDIS_VERSION" &&
        go build -o clients .) >"$folder/go.log" 2>&1 || die "go-redis cannot be built: $(cat "$folder/go.log")"
}

cargo build --quiet --package ensile-services
program="${CARGO_TARGET_DIR:-$PWD/target}/debug/ensile-service"
"$program" pht --data "$folder/table" --listen 127.0.0.1:0 >"$folder/address" &
server=$!
for _ in $(seq 100); do
    [ ! -s "$folder/address" ] || break
    kill -0 "$server" 2>/dev/null || die "the server did not start"
    sleep 0.1
done
port="$(sed 's/.*://' "$folder/address")"
[ -n "$port" ] || die "the server has no address after ten seconds"

for library in "$@"; do
    case "$library" in
    redis_py)
        install_redis_py
        timeout "$SECONDS_MAX" "$folder/redis_py/bin/python" ci/clients/redis_py.py "$port"
        ;;
    ioredis)
        install_npm "ioredis@$IOREDIS_VERSION"
        timeout "$SECONDS_MAX" node "$folder/ioredis/ioredis.js" "$port"
        ;;
    node_redis)
        install_npm "redis@$NODE_REDIS_VERSION"
        timeout "$SECONDS_MAX" node "$folder/node_redis/node_redis.js" "$port"
        ;;
    go_redis)
        install_go_redis
        timeout "$SECONDS_MAX" "$folder/go_redis/clients" "$port"
        ;;
    esac
done
kill -0 "$server" 2>/dev/null || die "the server ended"
