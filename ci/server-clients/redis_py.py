"""redis-py against `ensile serve`, plain and with asyncio. `redis_py.py PORT`"""

import asyncio
import sys
import threading
import time

import redis
import redis.asyncio

PORT = int(sys.argv[1])
KEYS = 500


def check(holds, text):
    if not holds:
        sys.exit(f"redis-py: {text}")


def equal(name, got, wanted):
    check(got == wanted, f"{name}: {got!r}, not {wanted!r}")


def client(**options):
    return redis.Redis(host="127.0.0.1", port=PORT, decode_responses=True, **options)


def values(db):
    equal("SET EX", db.set("s", "v", ex=100, nx=True), True)
    equal("SET NX", db.set("s", "w", nx=True), None)
    equal("SET GET", db.set("s", "w", get=True, keepttl=True), "v")
    check(90 < db.ttl("s") <= 100, "TTL")
    equal("MSET", db.mset({"a": 1, "b": 2}), True)
    equal("MGET", db.mget("a", "none", "b"), ["1", None, "2"])
    equal("INCRBYFLOAT", db.incrbyfloat("f", 1.5), 1.5)
    equal("HSET", db.hset("h", mapping={"x": 1, "y": "z"}), 2)
    equal("HGETALL", db.hgetall("h"), {"x": "1", "y": "z"})
    equal("HMGET", db.hmget("h", ["x", "none"]), ["1", None])
    equal("SADD", db.sadd("set", "a", "b"), 2)
    equal("SMEMBERS", db.smembers("set"), {"a", "b"})
    equal("ZADD", db.zadd("z", {"one": 1, "half": 0.5}), 2)
    equal("ZRANGE", [tuple(pair) for pair in db.zrange("z", 0, -1, withscores=True)], [("half", 0.5), ("one", 1.0)])
    equal("ZSCORE", db.zscore("z", "one"), 1.0)
    equal("ZADD INCR", db.zadd("z", {"one": 2}, incr=True), 3.0)
    equal("RPUSH", db.rpush("l", 1, 2, 3), 3)
    equal("LRANGE", db.lrange("l", 0, -1), ["1", "2", "3"])
    equal("LPOS", db.lpos("l", 3), 2)
    equal("TYPE", db.type("z"), "zset")
    equal("RENAME", db.rename("a", "c"), True)
    equal("EXISTS", db.exists("a", "b", "c"), 2)
    equal("GETEX", db.getex("c", px=5000), "1")
    equal("COPY", db.copy("c", "d"), True)
    equal("OBJECT", db.object("encoding", "b"), "int")
    try:
        db.lpush("s", 1)
        check(False, "LPUSH to a string")
    except redis.ResponseError as error:
        check(str(error).startswith("WRONGTYPE"), f"LPUSH to a string: {error}")


def transactions(db, other):
    replies = db.pipeline(transaction=False).set("p", 5).incr("p").get("p").execute()
    equal("a pipeline", replies, [True, 6, "6"])
    replies = db.pipeline().incr("p").lpush("p", 1).incr("p").execute(raise_on_error=False)
    check(replies[0] == 7 and isinstance(replies[1], redis.ResponseError) and replies[2] == 8, f"MULTI: {replies}")
    with db.pipeline() as pipe:
        pipe.watch("p")
        equal("GET behind WATCH", pipe.get("p"), "8")
        other.incr("p")
        try:
            pipe.multi()
            pipe.set("p", 0)
            pipe.execute()
            check(False, "EXEC after a change of a watched key")
        except redis.WatchError:
            pass

    def double(pipe):
        value = int(pipe.get("p"))
        pipe.multi()
        pipe.set("p", 2 * value)

    db.transaction(double, "p")
    equal("a transaction by WATCH", db.get("p"), "18")


def scripts(db):
    add = db.register_script("redis.call('set', KEYS[1], ARGV[1]); return redis.call('incr', KEYS[1])")
    equal("a script", add(keys=["sc"], args=[41]), 42)
    db.script_flush()
    equal("a script after SCRIPT FLUSH", add(keys=["sc"], args=[1]), 2)
    pipe = db.pipeline()
    add(keys=["sc"], args=[5], client=pipe)
    db.script_flush()
    equal("a script in MULTI", pipe.execute(), [6])
    equal("EVAL", db.eval("return {1, 'two', {ok='three'}, false}", 0), [1, "two", "three", None])
    lock = db.lock("lock", timeout=10)
    check(lock.acquire(blocking=False), "a free lock")
    check(not db.lock("lock", timeout=10).acquire(blocking=False), "a lock that another one has")
    check(lock.extend(10) and lock.owned(), "an extended lock")
    lock.release()
    check(not lock.locked(), "a released lock")


def messages(db, protocol):
    heard = db.pubsub()
    heard.subscribe("news")
    heard.psubscribe("n*")
    kinds = [heard.get_message(timeout=30)["type"] for _ in range(2)]
    equal("subscriptions", kinds, ["subscribe", "psubscribe"])
    equal("PUBLISH", db.publish("news", "hello"), 2)
    got = sorted(heard.get_message(timeout=30)["type"] for _ in range(2))
    equal("messages", got, ["message", "pmessage"])
    equal("PUBSUB NUMSUB", [tuple(pair) for pair in db.pubsub_numsub("news")], [("news", 1)])
    if protocol == 2:
        # redis-py takes the reply of version 3 for a message, of redis too.
        heard.ping()
        equal("PING of a listener", heard.get_message(timeout=30)["type"], "pong")
    heard.unsubscribe()
    heard.punsubscribe()
    heard.close()


def waits(db, other):
    popped = []
    thread = threading.Thread(target=lambda: popped.append(db.blpop(["w1", "w2"], timeout=30)))
    thread.start()
    while other.info("clients")["blocked_clients"] == 0:
        time.sleep(0.01)
    other.rpush("w2", "x")
    thread.join()
    equal("BLPOP", [tuple(one) for one in popped], [("w2", "x")])
    equal("BRPOP without an item", other.brpop("w1", timeout=0.05), None)
    other.zadd("wz", {"m": 3})
    equal("BZPOPMIN", list(other.bzpopmin("wz", timeout=5)), ["wz", "m", 3.0])
    other.rpush("w1", "y")
    equal("BLMOVE", other.blmove("w1", "w3", timeout=5), "y")


def scans(db):
    db.mset({f"scan:{number}": number for number in range(KEYS)})
    equal("scan_iter", len(set(db.scan_iter("scan:*", count=50))), KEYS)
    db.hset("sh", mapping={f"f{number}": number for number in range(KEYS)})
    equal("hscan_iter", len(dict(db.hscan_iter("sh"))), KEYS)
    db.sadd("ss", *range(KEYS))
    equal("sscan_iter", len(set(db.sscan_iter("ss"))), KEYS)
    db.zadd("sz", {str(number): number for number in range(KEYS)})
    equal("zscan_iter", sum(score for _, score in db.zscan_iter("sz")), sum(range(KEYS)))


def operation(db):
    info = db.info()
    for name in ["redis_version", "used_memory", "connected_clients", "keyspace_hits", "maxmemory", "role"]:
        check(name in info, f"INFO has no {name}")
    check(info["db0"]["keys"] > KEYS, f"db0: {info['db0']}")
    check(db.info("commandstats")["cmdstat_set"]["calls"] > 0, "cmdstat_set")
    check("get" in db.command() and db.command_count() > 200, "COMMAND")
    equal("COMMAND GETKEYS", db.command_getkeys("MSET", "a", 1, "b", 2), ["a", "b"])
    equal("CONFIG GET", db.config_get("appendonly"), {"appendonly": "yes"})
    check(db.config_set("slowlog-max-len", 64), "CONFIG SET")
    check(db.client_setname("me") and db.client_getname() == "me", "CLIENT SETNAME")
    check(any(one["name"] == "me" for one in db.client_list()), "CLIENT LIST")
    equal("CLIENT INFO", db.client_info()["name"], "me")
    check(db.dbsize() > KEYS and db.memory_usage("s") > 0 and len(db.time()) == 2, "DBSIZE, MEMORY, TIME")
    check(isinstance(db.slowlog_get(), list) and db.acl_whoami() == "default", "SLOWLOG, ACL")
    check(db.lastsave() and db.bgsave(), "LASTSAVE, BGSAVE")


def reconnects(db, other):
    number = db.client_id()
    equal("CLIENT KILL", other.client_kill_filter(_id=number), 1)
    equal("a request behind CLIENT KILL", db.set("again", 1), True)
    check(db.client_id() != number, "the client has a new connection")
    heard = db.pubsub()
    heard.subscribe("again")
    heard.get_message(timeout=30)
    equal("CLIENT KILL of listeners", other.client_kill_filter(_type="pubsub"), 1)
    while other.publish("again", "x") == 0:
        heard.get_message(timeout=0.05)
    kinds = set()
    while "message" not in kinds:
        message = heard.get_message(timeout=30)
        check(message is not None, "no message behind a new connection")
        kinds.add(message["type"])
    heard.close()


def plain(protocol):
    db = client(protocol=protocol, single_connection_client=True)
    other = client(protocol=protocol)
    other.flushall()
    values(db)
    transactions(db, other)
    scripts(db)
    messages(other, protocol)
    waits(db, other)
    scans(db)
    operation(db)
    reconnects(db, other)
    other.flushdb()
    equal("SELECT", client(protocol=protocol, db=3).set("k", 1), True)
    equal("another database", other.exists("k"), 0)


async def without_threads(protocol):
    db = redis.asyncio.Redis(host="127.0.0.1", port=PORT, decode_responses=True, protocol=protocol)
    await db.flushall()
    equal("sums", sorted(await asyncio.gather(*(db.incr("n") for _ in range(100)))), list(range(1, 101)))
    async with db.pipeline(transaction=True) as pipe:
        equal("MULTI", await pipe.set("k", 1).incr("k").get("k").execute(), [True, 2, "2"])
    async with db.pipeline() as pipe:
        await pipe.watch("k")
        await db.incr("k")
        pipe.multi()
        pipe.set("k", 0)
        try:
            await pipe.execute()
            check(False, "EXEC after a change of a watched key")
        except redis.WatchError:
            pass
    equal("a script", await db.register_script("return ARGV[1] * 2")(args=[21]), 42)
    async with db.pubsub() as heard:
        await heard.subscribe("news")
        await heard.get_message(timeout=30)
        await db.publish("news", "hello")
        equal("a message", (await heard.get_message(timeout=30))["data"], "hello")
    waiting = asyncio.create_task(db.blpop("w", timeout=30))
    while (await db.info("clients"))["blocked_clients"] == 0:
        await asyncio.sleep(0.01)
    await db.lpush("w", "x")
    equal("BLPOP", list(await waiting), ["w", "x"])
    await db.mset({f"scan:{number}": number for number in range(KEYS)})
    equal("scan_iter", len({key async for key in db.scan_iter("scan:*")}), KEYS)
    await db.client_kill_filter(_type="normal", skipme=True)
    equal("requests behind CLIENT KILL", await asyncio.gather(*(db.exists("k") for _ in range(20))), [1] * 20)
    async with db.lock("lock", timeout=10):
        check(await db.exists("lock"), "a lock")
    await db.aclose()


for protocol in [2, 3]:
    plain(protocol)
    asyncio.run(without_threads(protocol))
client().flushall()
print(f"redis-py {redis.__version__}: plain and asyncio, protocols 2 and 3")
