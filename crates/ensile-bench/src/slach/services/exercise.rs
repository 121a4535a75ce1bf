//! What clients do to the objects of each service, and what becomes of an object: a model beside the service.
//!
//! Invariants:
//! - Each object belongs to one client, so what its operations come to is known before the service replies.
//! - Objects that differ are shown differently.
//! - Creating, removing and counting stand among the operations: one that is lost, made twice or out of order shows.
//!
//! Neighbours: [`super::kills`] sends the requests and compares.

use ensile_base::random::Random;

/// Words of a request.
pub(super) type Words = Vec<String>;

/// An object of a service as its operations have made it.
pub(super) trait Exercised: Clone + Default + Send {
    /// Draws an operation, which is the client's number `sequence`, and makes it. The request, and its reply in words.
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (Words, String);

    /// The request that shows an object.
    fn look(object: &str) -> Words;

    /// Its reply, in words.
    fn shown(&self) -> String;
}

/// A request of these words.
fn words(words: &[&str]) -> Words {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// An element of the hash table: a whole number, if it is there.
#[derive(Clone, Debug, Default)]
pub(super) struct Element(Option<i64>);

impl Exercised for Element {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (Words, String) {
        match random.below(10) {
            0 => {
                let was_there = self.0.take().is_some();
                (words(&["DEL", object]), format!(":{}", i64::from(was_there)))
            }
            1 => {
                // No two clients' numbers of operations meet: a value that comes back is seen.
                let value = (sequence * 1000) as i64;
                self.0 = Some(value);
                (words(&["SET", object, &value.to_string()]), "+OK".to_owned())
            }
            2 if self.0.is_some() => {
                let before = self.shown();
                let value = (sequence * 1000 + 1) as i64;
                self.0 = Some(value);
                (words(&["SET", object, &value.to_string(), "IFEQ", &before]), "+OK".to_owned())
            }
            _ => {
                let sum = self.0.unwrap_or(0) + 1;
                self.0 = Some(sum);
                (words(&["INCR", object]), format!(":{sum}"))
            }
        }
    }

    fn look(object: &str) -> Words {
        words(&["GET", object])
    }

    fn shown(&self) -> String {
        self.0.map_or_else(|| "-".to_owned(), |value| value.to_string())
    }
}

/// A URL: its last crawl, crawls and links, if it is there.
#[derive(Clone, Debug, Default)]
pub(super) struct Url(Option<(u64, u32, i64)>);

impl Exercised for Url {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (Words, String) {
        let drawn = random.below(10);
        if drawn == 0 {
            let was_there = self.0.take().is_some();
            return (words(&["UPS.FORGET", object]), format!(":{}", i64::from(was_there)));
        }
        let (crawled, crawls, links) = self.0.get_or_insert_default();
        if drawn < 4 {
            (*crawled, *crawls) = (sequence.max(*crawled), *crawls + 1);
            (words(&["UPS.CRAWLED", object, &sequence.to_string()]), format!(":{crawls}"))
        } else {
            *links += 1;
            (words(&["UPS.COUNT", object, "inlinks", "1"]), format!(":{links}"))
        }
    }

    fn look(object: &str) -> Words {
        words(&["UPS.GET", object])
    }

    fn shown(&self) -> String {
        let Some((crawled, crawls, links)) = self.0 else { return "-".to_owned() };
        format!(
            "[crawled :{crawled} modified :0 language  crawls :{crawls} failures :0 classes :0 inlinks :{links} \
             outlinks :0 clicks :0 duplicates :0]"
        )
    }
}

/// A host: its day, its days and its URLs, if it is there.
#[derive(Clone, Debug, Default)]
pub(super) struct Host(Option<(u64, u32, i64)>);

impl Exercised for Host {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (Words, String) {
        let drawn = random.below(10);
        if drawn == 0 {
            let was_there = self.0.take().is_some();
            return (words(&["HIS.FORGET", object]), format!(":{}", i64::from(was_there)));
        }
        let (day, days, urls) = self.0.get_or_insert_default();
        if drawn < 3 {
            // An older day's figures come too late.
            let is_taken = sequence >= *day;
            if is_taken {
                *days += u32::from(sequence > *day);
                (*day, *urls) = (sequence, (sequence % 1000) as i64);
            }
            let figures = [sequence.to_string(), (sequence % 1000).to_string()];
            let request = ["HIS.DAILY", object, &figures[0], "de", &figures[1], "0"];
            (words(&request), format!(":{}", i64::from(is_taken)))
        } else {
            *urls += 1;
            (words(&["HIS.ADD", object, "1"]), format!(":{urls}"))
        }
    }

    fn look(object: &str) -> Words {
        words(&["HIS.GET", object])
    }

    fn shown(&self) -> String {
        let Some((day, days, urls)) = self.0 else { return "-".to_owned() };
        let country = if days == 0 { "" } else { "de" };
        format!("[day :{day} days :{days} country {country} urls :{urls} delay :0]")
    }
}
