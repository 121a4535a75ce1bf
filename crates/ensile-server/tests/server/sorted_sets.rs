//! Sorted sets: scores, ranks, ranges and operations, small in the row of the key, larger with blocks for ranks.

use ensile::{Readable, Table};

use super::rig::{Rig, shown};

/// Adds members from `m0` on, each with its number as the score.
fn fill(rig: &mut Rig, key: &str, members: usize) {
    let numbers: Vec<usize> = (0..members).collect();
    for chunk in numbers.chunks(500) {
        let pairs: String = chunk.iter().map(|number| format!(" {number} m{number}")).collect();
        let reply = rig.ask(rig.client, &format!("ZADD {key}{pairs}"));
        assert_eq!(reply, format!(":{}", chunk.len()));
    }
}

#[test]
fn ranks_and_ranges_are_those_of_the_scores() {
    let mut rig = Rig::new();
    fill(&mut rig, "z", 5_000);
    rig.play(
        r"
        ZCARD z | :5000
        ZRANK z m4321 | :4321
        ZREVRANK z m4321 | :678
        ZRANK z none | $-1
        ZSCORE z m17 | $2 17
        ZRANGE z 2500 2501 WITHSCORES | *4 $5 m2500 $4 2500 $5 m2501 $4 2501
        ZRANGE z -2 -1 | *2 $5 m4998 $5 m4999
        ZRANGE z 1 2 REV | *2 $5 m4998 $5 m4997
        ZREVRANGE z 4999 5000 | *1 $2 m0
        ZRANGE z 5000 6000 | *0
        ZRANGE z 100 (103 BYSCORE LIMIT 1 -1 | *2 $4 m101 $4 m102
        ZREVRANGEBYSCORE z +inf -inf LIMIT 4998 5 | *2 $2 m1 $2 m0
        ZRANGEBYSCORE z -inf +inf LIMIT -1 5 | *0
        ZCOUNT z 10 (4010 | :4000
        ZREMRANGEBYRANK z 1000 3999 | :3000
        ZCARD z | :2000
        ZRANK z m4000 | :1000
        ZREMRANGEBYSCORE z -inf 999 | :1000
        ZRANGE z 0 0 | *1 $5 m4000
        ZINCRBY z 1000 m4000 | $4 5000
        ZREVRANK z m4000 | :0
        ZPOPMIN z 2 | *4 $5 m4001 $4 4001 $5 m4002 $4 4002
        ZPOPMAX z | *2 $5 m4000 $4 5000
        TYPE z | +zset
        OBJECT ENCODING z | $8 skiplist
        ZREMRANGEBYRANK z 0 -1 | :997
        EXISTS z | :0
        ",
    );
}

#[test]
fn members_of_one_score_have_the_order_of_bytes() {
    for others in ["", " 0 m1 0 m2 0 m3"] {
        let mut rig = Rig::new();
        let long = "x".repeat(600);
        rig.play(&format!("ZADD z 0 b 0 a 0 ab 0 c 0 B{others} | :.."));
        if !others.is_empty() {
            rig.play(&format!("ZADD z 0 {long} | :1\nZREM z {long} m1 m2 m3 | :4"));
        }
        rig.play(
            r"
            ZRANGE z - + BYLEX | *5 $1 B $1 a $2 ab $1 b $1 c
            ZRANGEBYLEX z [a (b | *2 $1 a $2 ab
            ZREVRANGEBYLEX z [b (a LIMIT 1 1 | *1 $2 ab
            ZLEXCOUNT z (a + | :3
            ZLEXCOUNT z + - | :0
            ZRANGESTORE t z (B [b BYLEX | :3
            ZRANGE t 0 -1 WITHSCORES | *6 $1 a $1 0 $2 ab $1 0 $1 b $1 0
            ZREMRANGEBYLEX z - [b | :4
            ZRANGE z 0 -1 | *1 $1 c
            ZRANGEBYLEX z a b | -ERR min or max not valid string range item
            ",
        );
        rig.play(&format!(
            "ZRANGEBYLEX z [{0} + | *0\nZREM z {0} | :0\nZSCORE z {0} | $-1",
            "x".repeat(20_000)
        ));
    }
}

#[test]
fn a_small_range_by_members_looks_at_no_scores() {
    let mut rig = Rig::new();
    rig.play("ZADD z 1 a 2 b 3 c 4 d | :4\nZRANGE z [b (d BYLEX | *2 $1 b $1 c\nZRANGE z [d [b BYLEX REV | *3 $1 d $1 c $1 b");
    rig.play("ZLEXCOUNT z (a + | :3\nZRANGESTORE t z [c + BYLEX | :2\nZLEXCOUNT z [x + | :0");
}

#[test]
fn options_of_zadd_decide_which_scores_change() {
    let mut rig = Rig::new();
    rig.play(
        r"
        ZADD z NX 1 a 2 b | :2
        ZADD z NX CH 5 a 3 c | :1
        ZADD z XX CH 5 a 4 d | :1
        ZADD z GT CH 4 a 6 b | :1
        ZADD z LT CH 4 a 7 b | :1
        ZADD z INCR 1.5 a | $3 5.5
        ZADD z NX INCR 1.5 a | $-1
        ZADD z CH INCR 1 a 1 b | -ERR INCR option supports a single increment-element pair
        ZADD z NX XX 1 a | -ERR XX and NX options at the same time are not compatible
        ZADD z GT LT 1 a | -ERR GT, LT, and/or NX options at the same time are not compatible
        ZADD z 1 a 2 | -ERR syntax error
        ZADD z nan a | -ERR value is not a valid float
        ZADD z 1 a x b | -ERR value is not a valid float
        ZADD z inf i | :1
        ZINCRBY z -inf i | -ERR resulting score is not a number (NaN)
        ZADD z -0 zero | :1
        ZMSCORE z a b none i zero | *5 $3 5.5 $1 6 $-1 $3 inf $1 0
        ZADD none XX 1 a | :0
        EXISTS none | :0
        ",
    );
}

#[test]
fn operations_take_sorted_sets_and_sets() {
    let mut rig = Rig::new();
    rig.play(
        r"
        ZADD x 1 a 2 b 3 c | :3
        ZADD y 10 b 20 c 30 d | :3
        SADD s c d e | :3
        ZUNION 2 x y WITHSCORES | *8 $1 a $1 1 $1 b $2 12 $1 c $2 23 $1 d $2 30
        ZINTER 3 x y s WEIGHTS 1 2 3 AGGREGATE MAX WITHSCORES | *2 $1 c $2 40
        ZDIFF 2 x s WITHSCORES | *4 $1 a $1 1 $1 b $1 2
        ZINTERCARD 2 x y LIMIT 1 | :1
        ZUNIONSTORE x 2 x s | :5
        ZRANGE x 0 -1 WITHSCORES | *10 $1 a $1 1 $1 d $1 1 $1 e $1 1 $1 b $1 2 $1 c $1 4
        ZINTERSTORE y 2 y none | :0
        EXISTS y | :0
        ZDIFFSTORE s 1 x | :5
        TYPE s | +zset
        ZUNION 0 x | -ERR at least 1 input key is needed for 'zunion' command
        ZMPOP 2 none x MAX COUNT 2 | *2 $1 x *2 *2 $1 c $1 4 *2 $1 b $1 2
        ZMPOP 1 none MIN | *-1
        ",
    );
}

#[test]
fn the_third_protocol_has_doubles_and_pairs() {
    let mut rig = Rig::new();
    rig.play("HELLO 3 | %7..");
    rig.play(
        r"
        ZADD z 0.1 a 2 b | :2
        ZSCORE z a | ,0.10000000000000001
        ZRANGE z 0 -1 WITHSCORES | *2 *2 $1 a ,0.10000000000000001 *2 $1 b ,2
        ZPOPMIN z | *2 $1 a ,0.10000000000000001
        ZPOPMAX z 1 | *1 *2 $1 b ,2
        ZPOPMAX z 1 | *0
        ",
    );
}

/// Numbers of rows in `scores` and `ranks`.
fn rows(rig: &Rig) -> (usize, usize) {
    let db = rig.server.database();
    let scores: Table<(u64, u64, Vec<u8>), ()> = db.table("redis.scores").expect("the type is right");
    let ranks: Table<(u64, u8, u64, Vec<u8>), u64> = db.table("redis.ranks").expect("the type is right");
    db.run(|tx| Ok((tx.range(&scores, ..).count(), tx.range(&ranks, ..).count()))).expect("a read")
}

#[test]
fn a_larger_sorted_set_is_copied_and_removed_with_all_rows() {
    let mut rig = Rig::new();
    fill(&mut rig, "z", 1_000);
    let (scores, ranks) = rows(&rig);
    assert!(scores == 1_000 && (20..80).contains(&ranks), "{ranks} blocks");
    rig.play(
        r"
        COPY z y | :1
        ZREMRANGEBYRANK z 0 499 | :500
        ZRANK y m700 | :700
        ZRANK z m700 | :200
        ",
    );
    assert_eq!(rows(&rig).0, 1_500);
    rig.play("DEL z y | :2");
    assert_eq!(rows(&rig).0, 1_500, "the removal of a key touches no row of a member");
    rig.server.sweep().expect("the steps commit");
    assert_eq!(rows(&rig), (0, 0));
}

#[test]
fn a_watch_sees_a_new_score_and_no_equal_score() {
    for members in [2, 600] {
        let mut rig = Rig::new();
        fill(&mut rig, "z", members);
        let other = rig.connect();
        for (change, is_seen) in
            [("ZADD z 0 m0", false), ("ZADD z NX 5 m0", false), ("ZADD z 5 m0", true), ("ZREM z m1", true)]
        {
            rig.play("WATCH z | +OK");
            rig.play_as(other, &format!("{change} | :.."));
            rig.play("MULTI | +OK\nPING | +QUEUED");
            let reply = if is_seen { "*-1" } else { "*1 +PONG" };
            assert_eq!(rig.ask(rig.client, "EXEC"), reply, "{change}");
        }
    }
}

#[test]
fn a_walk_by_zscan_shows_every_member_with_its_score() {
    let mut rig = Rig::new();
    fill(&mut rig, "z", 600);
    let (mut cursor, mut shown) = ("0".to_owned(), Vec::new());
    loop {
        let reply = rig.ask(rig.client, &format!("ZSCAN z {cursor} COUNT 50"));
        let words: Vec<&str> = reply.split(' ').filter(|word| !word.starts_with(['$', '*'])).collect();
        for pair in words[1..].chunks(2) {
            assert_eq!(pair[0], format!("m{}", pair[1]));
            shown.push(pair[0].to_owned());
        }
        cursor = words[0].to_owned();
        if cursor == "0" {
            break;
        }
    }
    shown.sort();
    shown.dedup();
    assert_eq!(shown.len(), 600);
    rig.play(
        "ZADD small 0.5 a | :1\nZSCAN small 0 | *2 $1 0 *2 $1 a $3 0.5\nZSCAN z x | -ERR invalid cursor",
    );
}

#[test]
fn random_members_are_members_with_their_scores() {
    for members in [5, 600] {
        let mut rig = Rig::new();
        fill(&mut rig, "z", members);
        let reply = rig.ask(rig.client, "ZRANDMEMBER z 4 WITHSCORES");
        let words: Vec<&str> = reply.split(' ').filter(|word| !word.starts_with(['$', '*'])).collect();
        assert_eq!(words.len(), 8);
        assert!(words.chunks(2).all(|pair| pair[0] == format!("m{}", pair[1])), "{reply}");
        assert!(rig.ask(rig.client, "ZRANDMEMBER z -700").starts_with("*700 "));
        rig.play("ZRANDMEMBER z | $..\nZRANDMEMBER none | $-1\nZRANDMEMBER none 3 | *0");
    }
}

#[test]
fn a_client_waits_for_members() {
    let mut rig = Rig::new();
    let (waiter, other) = (rig.connect(), rig.client);
    rig.play("ZADD z 1 a 2 b | :2\nBZPOPMAX none z 0 | *3 $1 z $1 b $1 2\nBZMPOP 0 1 z MIN | *2 $1 z *1 *2 $1 a $1 1");
    for (wait, push, reply) in [
        ("BZPOPMIN x y 0", "ZADD y 3 c 4 d", "*3 $1 y $1 c $1 3"),
        ("BZMPOP 0 2 x z MAX COUNT 5", "ZUNIONSTORE x 1 y", "*2 $1 x *1 *2 $1 d $1 4"),
        ("BZPOPMAX z 0", "ZINCRBY z 2.5 e", "*3 $1 z $1 e $3 2.5"),
    ] {
        rig.send(waiter, &wait.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        rig.steps(20);
        assert_eq!(rig.received(waiter), None, "{wait}");
        rig.ask(other, push);
        rig.steps(20);
        let got = rig.received(waiter).map(|reply| shown(&reply));
        assert_eq!(got.as_deref(), Some(reply), "{wait}");
    }
    rig.play(
        "BZPOPMIN none -1 | -ERR timeout is negative\nMULTI | +OK\nBZPOPMIN none 0 | +QUEUED\nEXEC | *1 *-1",
    );
}

#[test]
fn members_stay_whose_scores_make_the_reply_too_long() {
    let mut rig = Rig::new();
    let long = "m".repeat(15_995);
    for number in 0..2096 {
        let member = format!("{number:05}{long}");
        assert_eq!(rig.ask_bytes(rig.client, &[b"ZADD", b"z", b"1.5", member.as_bytes()]), b":1\r\n");
    }
    rig.play(
        r"
        ZPOPMIN z 2096 | -ERR the reply would be too long: pop fewer members at once
        ZPOPMAX z 3000 | -ERR the reply would be too long: pop fewer members at once
        ZMPOP 1 z MAX COUNT 2096 | -ERR the reply would be too long: pop fewer members at once
        ZCARD z | :2096
        ",
    );
    let reply = rig.ask(rig.client, "ZPOPMIN z 2");
    assert!(reply.starts_with("*4 $16000 00000mm"), "{reply:.100}");
    rig.play("ZCARD z | :2094");
}

#[test]
fn a_large_input_has_a_small_intersection() {
    let mut rig = Rig::new();
    let long = "m".repeat(15_990);
    for begin in (0..8_400).step_by(30) {
        let members: Vec<String> = (begin..begin + 30).map(|number| format!("{number}{long}")).collect();
        let words = [b"SADD".as_slice(), b"s"].into_iter().chain(members.iter().map(String::as_bytes));
        assert_eq!(rig.ask_bytes(rig.client, &words.collect::<Vec<_>>()), b":30\r\n");
    }
    rig.play(
        r"
        ZINTERCARD 1 s LIMIT 1 | :1
        ZDIFF 2 s s | *0
        ",
    );
}
