//! Sets: members, random members, and operations over several sets.

use std::collections::{BTreeMap, BTreeSet};

use super::rig::Rig;

/// Number of members of a set whose rows have several stripes.
const MANY: usize = 5_000;

/// Adds members from `m0` on.
fn fill(rig: &mut Rig, key: &str, members: std::ops::Range<usize>) {
    let numbers: Vec<usize> = members.collect();
    for chunk in numbers.chunks(500) {
        let members: String = chunk.iter().map(|number| format!(" m{number}")).collect();
        let reply = rig.ask(rig.client, &format!("SADD {key}{members}"));
        assert_eq!(reply, format!(":{}", chunk.len()));
    }
}

/// The strings of a reply.
fn strings(reply: &str) -> Vec<&str> {
    reply.split(' ').skip(2).step_by(2).collect()
}

/// The members that a request replies, in their order.
fn sorted(rig: &mut Rig, request: &str) -> String {
    let reply = rig.ask(rig.client, request);
    let mut all = strings(&reply);
    all.sort_unstable();
    all.join(" ")
}

#[test]
fn members_come_and_go() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SADD s a b a | :2
        SADD s b c | :1
        SCARD s | :3
        SMEMBERS s | *3 $1 a $1 b $1 c
        SISMEMBER s a | :1
        SISMEMBER none a | :0
        SMISMEMBER s a x c | *3 :1 :0 :1
        SMISMEMBER none a | *1 :0
        SREM s a x | :1
        TYPE s | +set
        SREM s b c | :2
        EXISTS s | :0
        SADD n 1 2 | :2
        OBJECT ENCODING n | $6 intset
        SET text x | +OK
        SADD text a | -WRONGTYPE Operation against a key holding the wrong kind of value
        SINTER n text | -WRONGTYPE Operation against a key holding the wrong kind of value
        SUNIONSTORE n none text | -WRONGTYPE Operation against a key holding the wrong kind of value
        HELLO 3 | %7..
        SMEMBERS n | ~2 $1 1 $1 2
        SMEMBERS none | ~0
        SPOP n 9 | ~2 $1 1 $1 2
        EXISTS n | :0
        ",
    );
}

#[test]
fn a_member_moves_between_sets() {
    let mut rig = Rig::new();
    fill(&mut rig, "large", 0..600);
    rig.play(
        r"
        SADD s a b | :2
        SET text x | +OK
        SMOVE s t a | :1
        SMOVE s t a | :0
        SMOVE s s b | :1
        SMOVE s s x | :0
        SMOVE s text b | -WRONGTYPE Operation against a key holding the wrong kind of value
        SMOVE text s b | -WRONGTYPE Operation against a key holding the wrong kind of value
        SMOVE none text b | :0
        SMOVE large s m1 | :1
        SMOVE s large b | :1
        SCARD large | :600
        SMEMBERS s | *1 $2 m1
        SMOVE s large m1 | :1
        EXISTS s | :0
        SCARD large | :601
        SISMEMBER large m1 | :1
        ",
    );
}

#[test]
fn operations_over_sets_of_any_size_agree() {
    let mut rig = Rig::new();
    fill(&mut rig, "a", 0..MANY);
    fill(&mut rig, "b", MANY - 10..MANY + 10);
    fill(&mut rig, "c", 0..1000);
    let among = |range: std::ops::Range<usize>| {
        let mut all: Vec<String> = range.map(|number| format!("m{number}")).collect();
        all.sort_unstable();
        all.join(" ")
    };
    assert_eq!(sorted(&mut rig, "SINTER a b"), among(MANY - 10..MANY));
    assert_eq!(sorted(&mut rig, "SINTER b a"), among(MANY - 10..MANY));
    assert_eq!(sorted(&mut rig, "SINTER a c"), among(0..1000));
    assert_eq!(sorted(&mut rig, "SDIFF a c"), among(1000..MANY));
    assert_eq!(sorted(&mut rig, "SDIFF b a none"), among(MANY..MANY + 10));
    assert_eq!(sorted(&mut rig, "SUNION a none b c b"), among(0..MANY + 10));
    rig.play(
        r"
        SINTER a none | *0
        SDIFF none a | *0
        SDIFF a a | *0
        SINTERCARD 2 a c | :1000
        SINTERCARD 2 a c LIMIT 7 | :7
        SINTERCARD 2 a c LIMIT 0 | :1000
        SINTERCARD 1 none | :0
        SINTERCARD 0 a | -ERR numkeys should be greater than 0
        SINTERCARD x a | -ERR numkeys should be greater than 0
        SINTERCARD 2 a | -ERR Number of keys can't be greater than number of args
        SINTERCARD 1 a b | -ERR syntax error
        SINTERCARD 1 a LIMIT | -ERR syntax error
        SINTERCARD 1 a LIMIT -1 | -ERR LIMIT can't be negative
        SET d text EX 100 | +OK
        SINTERSTORE d a c | :1000
        TTL d | :-1
        SCARD d | :1000
        SUNIONSTORE d d b | :1020
        SDIFFSTORE d d b c | :0
        EXISTS d | :0
        SDIFFSTORE a a c | :4000
        SCARD a | :4000
        SDIFFSTORE c none | :0
        EXISTS c | :0
        ",
    );
    assert_eq!(sorted(&mut rig, "SMEMBERS a"), among(1000..MANY));
}

#[test]
fn popped_members_are_gone() {
    let mut rig = Rig::new();
    for count in [10, 700] {
        fill(&mut rig, "s", 0..count);
        let mut popped = BTreeSet::new();
        for wanted in [1, 3, count / 2] {
            let reply = rig.ask(rig.client, &format!("SPOP s {wanted}"));
            let some = strings(&reply);
            assert_eq!(some.len(), wanted);
            assert!(some.iter().all(|member| popped.insert((*member).to_owned())), "{some:?}");
        }
        while let Some(member) = rig.ask(rig.client, "SPOP s").split(' ').nth(1) {
            assert!(popped.insert(member.to_owned()), "{member}");
        }
        assert_eq!(popped.len(), count);
        rig.play("EXISTS s | :0");
    }
    rig.play(
        r"
        SPOP none | $-1
        SPOP none 2 | *0
        SADD s a | :1
        SPOP s 0 | *0
        SPOP s -1 | -ERR value is out of range, must be positive
        SPOP s x | -ERR value is out of range, must be positive
        SPOP s 1 2 | -ERR syntax error
        SCARD s | :1
        ",
    );
}

#[test]
fn members_stay_whose_reply_is_too_long() {
    let mut rig = Rig::new();
    let long = "m".repeat(16_000);
    for number in 0..2200 {
        let member = format!("{number}{long}");
        assert_eq!(rig.ask_bytes(rig.client, &[b"SADD", b"s", member.as_bytes()]), b":1\r\n");
    }
    for request in ["SMEMBERS s", "SPOP s 2200", "SPOP s 3000", "SPOP s 2199", "SUNION s s", "SINTER s s"] {
        let reply = rig.ask(rig.client, request);
        assert!(reply.starts_with("-ERR the reply would be longer"), "{request}: {reply:.100}");
    }
    rig.play("SCARD s | :2200");
}

/// Chi-square of counts that should be equal.
fn chi_square(counts: &BTreeMap<String, u64>, kinds: usize) -> f64 {
    let total: u64 = counts.values().sum();
    let expected = total as f64 / kinds as f64;
    let absent = (kinds - counts.len()) as f64 * expected;
    counts.values().map(|count| (*count as f64 - expected).powi(2) / expected).sum::<f64>() + absent
}

#[test]
fn random_members_have_equal_chances() {
    let mut rig = Rig::new();
    for size in [10, 300, MANY] {
        rig.play("DEL s | :..");
        fill(&mut rig, "s", 0..size);
        // Few members of many are drawn one by one.
        let drawn = (size / 100).max(1);
        for request in [format!("SRANDMEMBER s -{drawn}"), format!("SRANDMEMBER s {drawn}")] {
            let mut counts = BTreeMap::new();
            for _ in 0..20 * size / drawn {
                let reply = rig.ask(rig.client, &request);
                for member in strings(&reply) {
                    *counts.entry(member.to_owned()).or_default() += 1;
                }
            }
            let (kinds, chi) = (size as f64, chi_square(&counts, size));
            // Five standard deviations of the distribution.
            assert!(chi < kinds + 5.0 * (2.0 * kinds).sqrt() + 10.0, "{request} of {size}: {chi}");
        }
    }
    rig.play(
        r"
        SRANDMEMBER none | $-1
        SRANDMEMBER none 2 | *0
        SRANDMEMBER s 0 | *0
        SRANDMEMBER s 1 2 | -ERR syntax error
        SRANDMEMBER s -9223372036854775808 | -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        ",
    );
    for count in [3, 70, 4000, 5000, 6000] {
        let reply = rig.ask(rig.client, &format!("SRANDMEMBER s {count}"));
        let different: BTreeSet<_> = strings(&reply).into_iter().collect();
        assert_eq!((different.len(), strings(&reply).len()), (count.min(MANY), count.min(MANY)));
    }
}

#[test]
fn look_ups_in_other_sets_are_bounded() {
    let mut rig = Rig::new();
    fill(&mut rig, "s", 0..9_000);
    rig.play("SADD one m0 | :1");
    let others = (0..500).map(|number| format!(" one none:{number}")).collect::<String>();
    rig.play(&format!("SDIFFSTORE t s{others} | :8999\nZDIFFSTORE t 1001 s{others} | :8999"));
    rig.play(&format!("SDIFFSTORE t s{others} s | :0\nSINTERSTORE t s{} | :1", " one".repeat(500)));
    let others: String = (0..500).map(|number| format!(" other:{number}")).collect();
    for key in others.split_ascii_whitespace() {
        rig.play(&format!("SADD {key} other | :1"));
    }
    for request in [format!("SDIFF s{others}"), format!("ZDIFF 501 s{others}")] {
        let reply = rig.ask(rig.client, &request);
        assert!(reply.starts_with("-ERR the transaction's sum of read values"), "{reply:.100}");
    }
}

#[test]
fn repeated_draws_have_no_order() {
    let mut rig = Rig::new();
    rig.play("SADD s a b | :2");
    let reply = rig.ask(rig.client, "SRANDMEMBER s -64");
    let drawn = strings(&reply);
    assert_eq!(drawn.len(), 64);
    assert!(drawn.windows(2).filter(|pair| pair[0] != pair[1]).count() > 1, "{reply}");
}
