"""redis-py against the hash table: pipelines, transactions, names, databases, retries. `redis_py.py PORT`"""

import sys

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

PORT = int(sys.argv[1])


def client(**options):
    return redis.Redis(host="127.0.0.1", port=PORT, decode_responses=True, **options)


def check(holds, text):
    if not holds:
        sys.exit(f"redis-py: {text}")


def fails(text, call):
    try:
        reply = call()
    except redis.exceptions.RedisError as error:
        return str(error)
    sys.exit(f"redis-py: {text} returned {reply!r}")


def transactions(table, name):
    key = f"py:{name}"
    replies = table.pipeline().set(key, 5).incr(key).get(key).execute()
    check(replies == [True, 6, "6"], f"{name}: a transaction replied {replies}")
    broken = table.pipeline().incr(key)
    broken.execute_command("NO.SUCH.COMMAND", key)
    error = fails(f"{name}: a transaction with an unknown command", broken.incr(key).execute)
    check(table.get(key) == "6", f"{name}: a failed transaction was carried out ({error})")
    broken = table.pipeline().set(f"{key}:text", "x").incr(f"{key}:text").incr(key)
    replies = broken.execute(raise_on_error=False)
    check(replies[2] == 7 and table.get(key) == "7", f"{name}: the others of a failed command: {replies}")


def pipelines(table, name):
    key = f"py:{name}:pipeline"
    replies = table.pipeline(transaction=False).incr(key).incr(key).get(key).execute()
    check(replies == [1, 2, "2"], f"{name}: a pipeline replied {replies}")
    broken = table.pipeline(transaction=False).incr(key)
    broken.execute_command("NO.SUCH.COMMAND", key)
    fails(f"{name}: a pipeline with an unknown command", broken.incr(key).execute)
    check(table.get(key) == "4", f"{name}: each command of a pipeline once: {table.get(key)}")


retry = Retry(ConstantBackoff(0.01), 3)
variants = {
    "default": client(),
    "second protocol": client(protocol=2),
    "third protocol": client(protocol=3),
    "named": client(client_name="py"),
    "retrying": client(retry=retry, retry_on_error=[redis.exceptions.ResponseError]),
}
for name, table in variants.items():
    check(table.ping(), f"{name}: no PONG")
    if name != "retrying":
        pipelines(table, name)
    transactions(table, name)
check(variants["named"].client_getname() == "py", "the name is not kept")

# A client that retries an error sends the transaction again. No attempt may be carried out.
retrying = variants["retrying"]
for _ in range(5):
    broken = retrying.pipeline().incr("py:counted")
    broken.execute_command("NO.SUCH.COMMAND")
    fails("a retried transaction", broken.execute)
check(client().get("py:counted") is None, "a retried transaction was carried out")

other = client(db=1, retry=retry)
fails("a SET in database 1", lambda: other.set("py:other", 1))
fails("a transaction in database 1", lambda: other.pipeline().set("py:other", 1).execute())
fails("a pipeline in database 1", lambda: other.pipeline(transaction=False).set("py:other", 1).execute())
check(client().get("py:other") is None, "a command for database 1 was carried out in database 0")

fails("a SET with a password", lambda: client(password="secret", retry=retry).set("py:user", 1))
check(client().get("py:user") is None, "a command of a refused user was carried out")

fails("WATCH", lambda: client().pipeline().watch("py:watched"))
print(f"redis-py {redis.__version__}: {len(variants)} kinds of clients")
