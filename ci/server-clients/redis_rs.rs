//! redis-rs against `ensile serve`, plain and over tokio. `redis_rs PORT`

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use redis::{AsyncTypedCommands as _, Client, Commands as _, Connection, ErrorKind, Script, Value, pipe};
use tokio_stream::StreamExt as _;

const KEYS: usize = 500;

type Outcome = redis::RedisResult<()>;

fn client(query: &str) -> Client {
    let port = std::env::args().nth(1).expect("give the port of the server");
    Client::open(format!("redis://127.0.0.1:{port}/{query}")).expect("an address")
}

fn values(db: &mut Connection) -> Outcome {
    let (): () = db.set_ex("s", "v", 100)?;
    assert_eq!(db.mget::<_, (Option<String>, Option<String>)>(&["s", "none"])?, (Some("v".into()), None));
    let (): () = db.hset_multiple("h", &[("x", "1"), ("y", "z")])?;
    let hash: HashMap<String, String> = db.hgetall("h")?;
    assert_eq!((hash.len(), hash["y"].as_str()), (2, "z"));
    let (): () = db.zadd_multiple("z", &[(1.0, "one"), (0.5, "half")])?;
    let ranked: Vec<(String, f64)> = db.zrange_withscores("z", 0, -1)?;
    assert_eq!(ranked, [("half".to_owned(), 0.5), ("one".to_owned(), 1.0)]);
    let refused = db.lpush::<_, _, ()>("s", 1).expect_err("a string is no list");
    assert_eq!(refused.code(), Some("WRONGTYPE"));
    Ok(())
}

fn transactions(db: &mut Connection, other: &mut Connection) -> Outcome {
    let replies: (String, i64, String) = pipe().set("p", 5).incr("p", 1).get("p").query(db)?;
    assert_eq!(replies, ("OK".to_owned(), 6, "6".to_owned()));
    let replies: (i64, i64) = pipe().atomic().incr("p", 1).incr("p", 1).query(db)?;
    assert_eq!(replies, (7, 8));
    let mut tries = 0;
    let (sum,): (i64,) = redis::transaction(db, &["p"], |db, pipe| {
        let number: i64 = db.get("p")?;
        tries += 1;
        if tries == 1 {
            let _: i64 = other.incr("p", 1)?;
        }
        pipe.set("p", 2 * number).ignore().get("p").query(db)
    })?;
    assert_eq!((tries, sum), (2, 18), "the first EXEC rests on a changed key");
    Ok(())
}

fn scripts(db: &mut Connection) -> Outcome {
    let add = Script::new("return redis.call('incrby', KEYS[1], ARGV[1])");
    assert_eq!(add.key("sc").arg(40).invoke::<i64>(db)?, 40);
    let (): () = redis::cmd("SCRIPT").arg("FLUSH").query(db)?;
    assert_eq!(add.key("sc").arg(2).invoke::<i64>(db)?, 42);
    let shown: (i64, String, Option<i64>) = redis::cmd("EVAL").arg("return {1, 'two', false}").arg(0).query(db)?;
    assert_eq!(shown, (1, "two".to_owned(), None));
    Ok(())
}

fn messages(db: &mut Connection, listener: &mut Connection) -> Outcome {
    let mut heard = listener.as_pubsub();
    heard.subscribe("news")?;
    heard.psubscribe("n*")?;
    assert_eq!(db.publish::<_, _, i64>("news", "hello")?, 2);
    let texts: BTreeSet<(bool, String)> = (0..2)
        .map(|_| heard.get_message().map(|message| (message.from_pattern(), message.get_payload().expect("a text"))))
        .collect::<Result<_, _>>()?;
    assert_eq!(texts, BTreeSet::from([(false, "hello".to_owned()), (true, "hello".to_owned())]));
    Ok(())
}

fn waits(db: &mut Connection, query: &str) -> Outcome {
    let waiter = client(query);
    let popped = std::thread::spawn(move || waiter.get_connection()?.blpop::<_, (String, String)>(&["w1", "w2"], 30.0));
    while redis::cmd("INFO").arg("clients").query::<String>(db)?.contains("blocked_clients:0") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _: i64 = db.rpush("w2", "x")?;
    assert_eq!(popped.join().expect("no panic")?, ("w2".to_owned(), "x".to_owned()));
    assert_eq!(db.brpop::<_, Option<(String, String)>>("w1", 0.05)?, None);
    Ok(())
}

fn scans(db: &mut Connection) -> Outcome {
    let mut all = pipe();
    (0..KEYS).for_each(|number| drop(all.set(format!("scan:{number}"), number).ignore().sadd("ss", number).ignore()));
    let (): () = all.query(db)?;
    let keys: BTreeSet<String> = db.scan_match::<_, String>("scan:*")?.collect::<Result<_, _>>()?;
    assert_eq!(keys.len(), KEYS);
    let members: BTreeSet<usize> = db.sscan::<_, usize>("ss")?.collect::<Result<_, _>>()?;
    assert_eq!(members.len(), KEYS);
    Ok(())
}

/// A plain connection ends with its socket, and its program connects again.
fn ends(db: &mut Connection, query: &str) -> Outcome {
    let mut killed = client(query).get_connection()?;
    let number: i64 = redis::cmd("CLIENT").arg("ID").query(&mut killed)?;
    assert_eq!(redis::cmd("CLIENT").arg("KILL").arg("ID").arg(number).query::<i64>(db)?, 1);
    let lost = killed.get::<_, Value>("s").expect_err("the connection is gone");
    assert!(lost.is_connection_dropped() || lost.kind() == ErrorKind::Io, "{lost:?}");
    assert_eq!(client(query).get_connection()?.exists::<_, i64>("s")?, 1);
    Ok(())
}

fn plain(query: &str) -> Outcome {
    let (mut db, mut other) = (client(query).get_connection()?, client(query).get_connection()?);
    let (): () = redis::cmd("FLUSHALL").query(&mut db)?;
    values(&mut db)?;
    transactions(&mut db, &mut other)?;
    scripts(&mut db)?;
    messages(&mut db, &mut other)?;
    waits(&mut db, query)?;
    scans(&mut db)?;
    ends(&mut db, query)
}

async fn over_tokio(query: &str) -> Outcome {
    let db = client(query).get_connection_manager().await?;
    redis::cmd("FLUSHALL").query_async::<()>(&mut db.clone()).await?;
    let mut sums = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let mut db = db.clone();
        sums.spawn(async move { db.incr("n", 1).await });
    }
    let mut numbers: Vec<isize> = sums.join_all().await.into_iter().collect::<Result<_, _>>()?;
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    let replies: (i64, String) = pipe().atomic().incr("n", 1).get("n").query_async(&mut db.clone()).await?;
    assert_eq!(replies, (101, "101".to_owned()));
    let script = Script::new("return ARGV[1] * 2");
    assert_eq!(script.arg(21).invoke_async::<i64>(&mut db.clone()).await?, 42);
    let (mut sink, mut heard) = client("").get_async_pubsub().await?.split();
    sink.subscribe("news").await?;
    db.clone().publish("news", "hello").await?;
    let message = heard.next().await.expect("a message");
    assert_eq!(message.get_payload::<String>()?, "hello");
    let mut waiter = client(query).get_connection_manager().await?;
    let popped = tokio::spawn(async move {
        redis::cmd("BLPOP").arg("w").arg(0).query_async::<(String, String)>(&mut waiter).await
    });
    while redis::cmd("INFO").arg("clients").query_async::<String>(&mut db.clone()).await?.contains("blocked_clients:0") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    db.clone().lpush("w", "x").await?;
    assert_eq!(popped.await.expect("no panic")?, ("w".to_owned(), "x".to_owned()));
    // A manager connects again after the error of the request that has met the end.
    let number: i64 = redis::cmd("CLIENT").arg("ID").query_async(&mut db.clone()).await?;
    let mut killer = client(query).get_connection()?;
    assert_eq!(redis::cmd("CLIENT").arg("KILL").arg("ID").arg(number).query::<i64>(&mut killer)?, 1);
    let mut tries = 0;
    while db.clone().exists("n").await.is_err() {
        tries += 1;
        assert!(tries < 1000, "a manager connects again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let again: i64 = redis::cmd("CLIENT").arg("ID").query_async(&mut db.clone()).await?;
    assert_ne!(again, number);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    for query in ["", "?protocol=resp3", "3?protocol=resp3"] {
        plain(query)?;
    }
    for query in ["", "?protocol=resp3"] {
        tokio::time::timeout(Duration::from_secs(120), over_tokio(query)).await.expect("it ends")?;
    }
    let (): () = redis::cmd("FLUSHALL").query(&mut client("").get_connection()?)?;
    println!("redis-rs: plain and tokio, protocols 2 and 3");
    Ok(())
}
