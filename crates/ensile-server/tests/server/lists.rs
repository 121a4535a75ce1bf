//! Lists: items at both ends, packed in the row of the key, or in rows at running positions.

use std::collections::VecDeque;

use ensile::{Readable, Table};
use ensile_base::random::Random;
use ensile_sim::SimDisk;

use super::rig::Rig;

/// Number of items of a list with rows.
const MANY: usize = 1_000;

/// Pushes the items `0`, `1` .. behind the list.
fn fill(rig: &mut Rig, key: &str, items: usize) {
    let numbers: Vec<String> = (0..items).map(|number| number.to_string()).collect();
    for chunk in numbers.chunks(500) {
        let reply = rig.ask(rig.client, &format!("RPUSH {key} {}", chunk.join(" ")));
        assert!(reply.starts_with(':'), "{reply}");
    }
}

/// Checks that the positions between the ends have items, and no other position. Returns the number of all items.
fn check_rows(rig: &Rig) -> usize {
    let db = rig.server.database();
    let items: Table<(u64, i64), Vec<u8>> = db.table("redis.items").expect("the type is right");
    let stripes: Table<(u64, u32), (i64, u64)> = db.table("redis.stripes").expect("the type is right");
    db.run(|tx| {
        let places = tx.range(&items, ..).map(|row| row.map(|(place, _)| place));
        let places = places.collect::<ensile::Result<Vec<_>>>()?;
        for of_one in places.chunk_by(|(first, _), (second, _)| first == second) {
            let object = of_one[0].0;
            let ends = [0, 1].map(|end| tx.get(&stripes, &(object, end)).expect("a read"));
            let [Some((head, _)), Some((tail, _))] = ends else { panic!("both ends have a row: {ends:?}") };
            assert!(of_one.iter().map(|(_, position)| *position).eq(head..tail), "items stand without a gap");
        }
        Ok(places.len())
    })
    .expect("a read")
}

/// A list, and the plain list that it is to be.
struct Twin {
    rig: Rig,
    plain: VecDeque<String>,
    random: Random,
}

impl Twin {
    fn below(&mut self, limit: usize) -> usize {
        self.random.next_below(limit as u64) as usize
    }

    /// Few items, so that equal items are found, and sometimes a long item.
    fn item(&mut self) -> String {
        let number = self.below(20);
        if self.random.percent(2) { format!("{number}").repeat(300) } else { number.to_string() }
    }

    /// An index around the list, of both signs.
    fn index(&mut self) -> i64 {
        let length = self.plain.len() + 2;
        let index = self.below(2 * length) as i64;
        index - length as i64
    }

    /// Place of an index.
    fn place(&self, index: i64) -> Option<usize> {
        let place = if index < 0 { index + self.plain.len() as i64 } else { index };
        usize::try_from(place).ok().filter(|place| *place < self.plain.len())
    }

    fn asks(&mut self, request: &str, expected: &str) {
        let reply = self.rig.ask(self.rig.client, request);
        assert_eq!(reply, expected, "{request}\n{:?}", self.plain);
    }

    /// A request that pushes or pops.
    fn change_an_end(&mut self) {
        let (is_head, count) = (self.random.percent(50), 1 + self.below(8));
        let letter = if is_head { 'L' } else { 'R' };
        if self.random.percent(55) {
            let items: Vec<String> = (0..count).map(|_| self.item()).collect();
            for item in items.clone() {
                if is_head { self.plain.push_front(item) } else { self.plain.push_back(item) }
            }
            let length = self.plain.len();
            self.asks(&format!("{letter}PUSH l {}", items.join(" ")), &format!(":{length}"));
            return;
        }
        let pop = |twin: &mut Self| if is_head { twin.plain.pop_front() } else { twin.plain.pop_back() };
        if self.random.percent(50) {
            let expected = bulk(pop(self).as_ref());
            self.asks(&format!("{letter}POP l"), &expected);
        } else {
            let was_empty = self.plain.is_empty();
            let items: Vec<String> = (0..count).map_while(|_| pop(self)).collect();
            let expected = if was_empty { "*-1".to_owned() } else { array(items.iter()) };
            self.asks(&format!("{letter}POP l {count}"), &expected);
        }
    }

    /// A request that changes the inner of the list.
    fn change_within(&mut self) {
        let (index, item, other) = (self.index(), self.item(), self.item());
        match self.below(6) {
            0 => {
                let place = self.place(index);
                let expected = match place {
                    _ if self.plain.is_empty() => "-ERR no such key",
                    None => "-ERR index out of range",
                    Some(place) => {
                        self.plain[place] = item.clone();
                        "+OK"
                    }
                };
                self.asks(&format!("LSET l {index} {item}"), expected);
            }
            1 => {
                let is_behind = self.random.percent(50);
                let word = if is_behind { "AFTER" } else { "BEFORE" };
                let length = match self.plain.iter().position(|each| *each == other) {
                    _ if self.plain.is_empty() => 0,
                    None => -1,
                    Some(place) => {
                        self.plain.insert(place + usize::from(is_behind), item.clone());
                        self.plain.len() as i64
                    }
                };
                self.asks(&format!("LINSERT l {word} {other} {item}"), &format!(":{length}"));
            }
            2 => {
                let count = self.below(7) as i64 - 3;
                let mut left = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
                let before = self.plain.len();
                let mut keep = |each: &String| {
                    let goes = *each == item && left > 0;
                    left -= usize::from(goes);
                    !goes
                };
                self.plain = if count < 0 {
                    self.plain
                        .iter()
                        .rev()
                        .filter(|each| keep(each))
                        .cloned()
                        .collect::<Vec<_>>()
                        .into_iter()
                        .rev()
                        .collect()
                } else {
                    self.plain.iter().filter(|each| keep(each)).cloned().collect()
                };
                let removed = before - self.plain.len();
                self.asks(&format!("LREM l {count} {item}"), &format!(":{removed}"));
            }
            3 if self.random.percent(10) => {
                let last = self.index();
                let kept = self.range(index, last);
                self.plain = self.plain.range(kept).cloned().collect();
                self.asks(&format!("LTRIM l {index} {last}"), "+OK");
            }
            3 => {
                let kept = self.plain.len().saturating_sub(1);
                self.plain.pop_front();
                self.asks(&format!("LTRIM l {} -1", usize::from(kept > 0 || self.plain.is_empty())), "+OK");
            }
            4 => {
                let item = self.plain.pop_back();
                if let Some(item) = item.clone() {
                    self.plain.push_front(item);
                }
                self.asks("LMOVE l l RIGHT LEFT", &bulk(item.as_ref()));
            }
            _ => {
                let item = self.plain.pop_front();
                if let Some(item) = item.clone() {
                    self.plain.push_back(item);
                }
                self.asks("LMOVE l l LEFT RIGHT", &bulk(item.as_ref()));
            }
        }
    }

    /// Places from an index to another.
    fn range(&self, first: i64, last: i64) -> std::ops::Range<usize> {
        let length = self.plain.len() as i64;
        let from_head = |index: i64| if index < 0 { index + length } else { index };
        let (first, behind) = (from_head(first).max(0), from_head(last).min(length - 1) + 1);
        if first >= behind { 0..0 } else { first as usize..behind as usize }
    }

    fn look(&mut self) {
        let (index, item) = (self.index(), self.item());
        match self.below(4) {
            0 => self.asks("LLEN l", &format!(":{}", self.plain.len())),
            1 => {
                let expected = bulk(self.place(index).map(|place| &self.plain[place]));
                self.asks(&format!("LINDEX l {index}"), &expected);
            }
            2 => {
                let last = self.index();
                let expected = array(self.plain.range(self.range(index, last)));
                self.asks(&format!("LRANGE l {index} {last}"), &expected);
            }
            _ => {
                let (is_reverse, skipped, compared) =
                    (self.random.percent(50), self.below(3), self.below(30));
                let mut places: Vec<usize> = (0..self.plain.len()).collect();
                if is_reverse {
                    places.reverse();
                }
                places.truncate(if compared == 0 { usize::MAX } else { compared });
                places.retain(|place| self.plain[*place] == item);
                let rank = if is_reverse { -1 - skipped as i64 } else { 1 + skipped as i64 };
                let found: Vec<String> = places.iter().skip(skipped).take(2).map(usize::to_string).collect();
                let expected = std::iter::once(format!("*{}", found.len()))
                    .chain(found.iter().map(|at| format!(":{at}")));
                let expected = expected.collect::<Vec<_>>().join(" ");
                self.asks(&format!("LPOS l {item} RANK {rank} COUNT 2 MAXLEN {compared}"), &expected);
            }
        }
    }
}

fn bulk(item: Option<&String>) -> String {
    item.map_or("$-1".to_owned(), |item| format!("${} {item}", item.len()))
}

fn array<'i>(items: impl ExactSizeIterator<Item = &'i String>) -> String {
    let head = format!("*{}", items.len());
    std::iter::once(head).chain(items.map(|item| bulk(Some(item)))).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_list_is_as_a_plain_list_through_any_requests() {
    for seed in 0..6 {
        let mut twin = Twin { rig: Rig::new(), plain: VecDeque::new(), random: Random::from_seed(seed) };
        let mut longest = 0;
        for at in 0..1_500 {
            match twin.below(10) {
                0..5 => twin.change_an_end(),
                5..7 => twin.change_within(),
                _ => twin.look(),
            }
            longest = longest.max(twin.plain.len());
            if at % 50 == 0 {
                twin.rig.server.sweep().expect("the steps commit");
                let in_rows = check_rows(&twin.rig);
                assert!(in_rows == 0 || in_rows == twin.plain.len(), "seed {seed}: {in_rows} rows");
                let expected = array(twin.plain.iter());
                twin.asks("LRANGE l 0 -1", &expected);
                let is_there = usize::from(!twin.plain.is_empty());
                twin.asks("EXISTS l", &format!(":{is_there}"));
            }
        }
        assert!(longest > 200, "seed {seed}: {longest} items have rows");
    }
}

#[test]
fn a_longer_list_moves_with_its_key_and_is_copied_as_a_whole() {
    let mut rig = Rig::new();
    fill(&mut rig, "l", MANY);
    rig.play(
        r"
        PEXPIRE l 100000 | :1
        RENAME l m | +OK
        LPUSH m first | :1001
        PTTL m | :9..
        COPY m n | :1
        RPOP m | $3 999
        LSET m 0 changed | +OK
        LLEN n | :1001
        LINDEX n 0 | $5 first
        LINDEX n -1 | $3 999
        MOVE n 1 | :1
        EXISTS n | :0
        LMOVE m other LEFT RIGHT | $7 changed
        LRANGE other 0 -1 | *1 $7 changed
        OBJECT ENCODING m | $9 quicklist
        TYPE m | +list
        DBSIZE | :2
        ",
    );
    assert_eq!(check_rows(&rig), 2 * MANY);
    rig.play("DEL m | :1\nSELECT 1 | +OK\nLTRIM n -2 -1 | +OK\nLRANGE n 0 -1 | *2 $3 998 $3 999");
    rig.play("PTTL n | :9..\nDEL n | :1\nSELECT 0 | +OK");
    rig.server.sweep().expect("the steps commit");
    assert_eq!(check_rows(&rig), 0, "the sweeper removes the rows");
}

#[test]
fn a_value_of_another_type_is_no_list() {
    let mut rig = Rig::new();
    rig.play("SET s text | +OK\nRPUSH l a | :1");
    const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for request in [
        "LPUSH s a",
        "RPUSHX s a",
        "LPOP s",
        "RPOP s 2",
        "LLEN s",
        "LINDEX s 0",
        "LRANGE s 0 1",
        "LSET s 0 a",
        "LINSERT s BEFORE a b",
        "LREM s 0 a",
        "LTRIM s 0 1",
        "LPOS s a",
        "LMOVE s l LEFT LEFT",
        "LMOVE l s LEFT LEFT",
        "RPOPLPUSH l s",
        "LMPOP 2 none s LEFT",
        "GET l",
        "HSET l f v",
    ] {
        assert_eq!(rig.ask(rig.client, request), WRONG, "{request}");
    }
    rig.play("GET s | $4 text\nLRANGE l 0 -1 | *1 $1 a");
}

#[test]
fn items_that_a_reply_has_no_room_for_are_not_popped() {
    let mut rig = Rig::new();
    let (client, item) = (rig.client, vec![b'x'; 12 << 20]);
    for _ in 0..3 {
        rig.ask_bytes(client, &[b"RPUSH", b"l", &item]);
    }
    rig.play("LPOP l 3 | -ERR the reply would be too long: pop fewer items at once\nLLEN l | :3");
    rig.play("LRANGE l 0 -1 | -ERR the reply would be longer..");
}

#[test]
fn a_key_goes_with_its_last_item() {
    let (mut rig, item) = (Rig::new(), "x".repeat(700));
    for removal in [
        "LPOP l".to_owned(),
        "RPOP l 5".to_owned(),
        format!("LREM l 0 {item}"),
        "LTRIM l 1 0".to_owned(),
        "LMOVE l other LEFT LEFT".to_owned(),
    ] {
        assert_eq!(rig.ask(rig.client, &format!("RPUSH l {item}")), ":1", "Y7: {removal}");
        rig.ask(rig.client, &removal);
        assert_eq!(rig.ask(rig.client, "EXISTS l"), ":0", "Y7: {removal}");
    }
}

#[test]
fn a_watch_of_a_list_sees_every_change() {
    for items in [3, MANY] {
        let mut rig = Rig::new();
        fill(&mut rig, "l", items);
        let other = rig.connect();
        for change in [
            "LPUSH l a",
            "RPUSH l a",
            "LPOP l",
            "RPOP l",
            "LSET l 1 x",
            "LSET l -1 x",
            "LINSERT l BEFORE x y",
            "LREM l 1 y",
            "LTRIM l 1 -1",
            "LTRIM l 0 -1",
            "LMOVE l l LEFT RIGHT",
            "DEL l",
        ] {
            rig.play("WATCH l | +OK");
            let reply = rig.ask(other, change);
            assert!(!reply.starts_with('-'), "{change}: {reply}");
            rig.play("MULTI | +OK\nSET seen 1 | +QUEUED");
            assert_eq!(rig.ask(rig.client, "EXEC"), "*-1", "Y6: {change}");
            if change == "LTRIM l 1 -1" && items == 3 {
                rig.play("RPUSH l x | :..");
            }
        }
        rig.play("RPUSH l a | :1\nWATCH l | +OK");
        rig.play_as(other, "LREM l 0 none | :0\nLRANGE l 0 -1 | *1 $1 a\nLPUSHX none a | :0");
        rig.play("MULTI | +OK\nLLEN l | +QUEUED\nEXEC | *1 :1");
    }
}

#[test]
fn a_crash_keeps_the_ends_and_the_items_of_a_list_together() {
    let long = ["x".repeat(40), "y".repeat(40), "z".repeat(40)].join(" ");
    let requests: Vec<String> = (0..40)
        .map(|at| match at % 8 {
            0..3 => format!("RPUSH l {long}"),
            3 => format!("LPUSH l {long}"),
            4 => "LPOP l 2".to_owned(),
            5 => format!("LINSERT l AFTER {} new", "y".repeat(40)),
            6 => format!("LREM l 2 {}", "z".repeat(40)),
            _ => "LTRIM l 1 -2".to_owned(),
        })
        .chain(["LPOP l 1000".to_owned(), format!("RPUSH l {long} {long} {long} {long} {long}")])
        .collect();
    let (mut cuts, mut found) = (0, 0);
    for call in (1..).step_by(7) {
        let disk = SimDisk::new();
        let mut rig = Rig::on(&disk, |builder| builder);
        disk.cut_power_at(disk.calls().all + call);
        for request in &requests {
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            rig.send(rig.client, &words);
            rig.steps(12);
        }
        drop(rig);
        let is_cut = disk.is_without_power();
        disk.crash(call);
        let mut rig = Rig::on(&disk, |builder| builder);
        let in_rows = check_rows(&rig);
        let length = rig.ask(rig.client, "LLEN l");
        let items = rig.ask(rig.client, "LRANGE l 0 -1");
        assert_eq!(items.split(' ').next(), Some(&*length.replace(':', "*")), "call {call}");
        assert!(in_rows == 0 || format!(":{in_rows}") == length, "call {call}: {in_rows} rows, {length}");
        found += usize::from(in_rows > 0);
        if !is_cut {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 20 && found > 10, "{cuts} cuts, {found} with rows");
}
