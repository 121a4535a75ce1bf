#!/usr/bin/env bash
# Client libraries of redis against the hash table: pipelines and transactions as each library sends them by default,
# with an unknown command, a name, another database, a password, and retries. No command of a failed transaction may be
# carried out. The libraries come from PyPI, npm and the Go module proxy into a temporary folder. A minute, without the
# build. ci/server-clients.sh has more libraries, against `ensile serve`.
#   bash ci/clients.sh [redis_py|ioredis|node_redis|go_redis..]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=ci/clients/tools.sh
. ci/clients/tools.sh

[ $# -gt 0 ] || set -- redis_py ioredis node_redis go_redis
for library in "$@"; do
    case "$library" in
    redis_py) need_python ;;
    ioredis | node_redis) need_node ;;
    go_redis) need_go ;;
    *) die "no library $library: redis_py, ioredis, node_redis, go_redis" ;;
    esac
done
need cargo "install Rust by rustup (https://rustup.rs)"

begin_folder
cargo build --quiet --package ensile-services
begin_server "${CARGO_TARGET_DIR:-$PWD/target}/debug/ensile-service" pht --data "$folder/table" --listen 127.0.0.1:0

for library in "$@"; do
    case "$library" in
    redis_py)
        install_python redis_py "redis==$REDIS_PY_VERSION"
        run "$folder/redis_py/bin/python" ci/clients/redis_py.py "$port"
        ;;
    ioredis)
        install_npm ci/clients/ioredis.js "ioredis@$IOREDIS_VERSION"
        run node "$folder/ioredis/ioredis.js" "$port"
        ;;
    node_redis)
        install_npm ci/clients/node_redis.js "redis@$NODE_REDIS_VERSION"
        run node "$folder/node_redis/node_redis.js" "$port"
        ;;
    go_redis)
        install_go ci/clients/go_redis.go "github.com/redis/go-redis/v9@$GO_REDIS_VERSION"
        run "$folder/go_redis/clients" "$port"
        ;;
    esac
done
kill -0 "$server" 2>/dev/null || die "the server ended"
