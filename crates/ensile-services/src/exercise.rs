//! What clients do to the objects of each service, and what becomes of an object: a model beside the service.
//!
//! Invariants:
//! - Each object belongs to one client, so what its operations come to is known before the service replies.
//! - Objects that differ are shown differently.
//! - Creating, removing and counting stand among the operations: one that is lost, made twice or out of order shows.
//!
//! Neighbours: tests that cut the power, and the bench that kills processes, send the requests and compare.

use std::collections::VecDeque;

use ensile_base::random::Random;

/// States before the last acknowledged one that are remembered, to tell what is wrong.
const REMEMBERED: usize = 64;

/// RequestWords of a request.
pub type RequestWords = Vec<String>;

/// An object of a service as its operations have made it.
pub trait Exercised: Clone + Default + Send {
    /// Draws an operation, which is the client's number `sequence`, and makes it. The request, and its reply in words.
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String);

    /// The request that shows an object.
    fn look(object: &str) -> RequestWords;

    /// Its reply, in words.
    fn shown(&self) -> String;
}

/// An object, and what may be found of it.
#[derive(Debug)]
pub struct Tracked<E> {
    name: String,
    /// The state behind the last acknowledged operation, then those behind each one that was sent.
    states: VecDeque<E>,
    /// States that were replaced by acknowledged operations, as they were shown.
    old: VecDeque<String>,
}

impl<E: Exercised> Tracked<E> {
    /// One that is not there yet.
    pub fn new(name: String) -> Self {
        Self { name, states: VecDeque::from([E::default()]), old: VecDeque::new() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many operations were sent that are not acknowledged.
    pub fn under_way(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// Draws the next operation: the request that is sent now, and its reply in words.
    pub fn operate(&mut self, sequence: u64, random: &mut Random) -> (RequestWords, String) {
        let mut state = self.states.back().cloned().unwrap_or_default();
        let drawn = state.operate(&self.name, sequence, random);
        self.states.push_back(state);
        drawn
    }

    /// The oldest operation that was sent is acknowledged.
    pub fn acknowledge(&mut self) {
        if let Some(state) = self.states.pop_front() {
            self.old.push_back(state.shown());
            if self.old.len() > REMEMBERED {
                self.old.pop_front();
            }
        }
    }

    /// Takes what was found behind a recovery for the state from now on; or what is wrong with it.
    ///
    /// # Errors
    /// It is in none of the states that it may be in.
    pub fn find(&mut self, found: &str) -> Result<(), Mistake> {
        let Some(at) = self.states.iter().position(|state| state.shown() == found) else {
            let expected = self.states.front().map_or_else(String::new, E::shown);
            let is_old = self.old.iter().any(|old| old == found);
            let text = format!("{}: {found} was found, {expected} or later was to be", self.name);
            return Err(if is_old { Mistake::Lost(text) } else { Mistake::Wrong(text) });
        };
        self.states.drain(..at);
        self.states.truncate(1);
        Ok(())
    }
}

/// Something that must not be.
#[derive(Debug)]
pub enum Mistake {
    /// An acknowledged operation is not there.
    Lost(String),
    /// Something is there that is none of the object's states: an operation was made twice, out of order, or by half.
    Wrong(String),
}

/// A request of these words.
fn words(words: &[&str]) -> RequestWords {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// An element of the hash table: a whole number, if it is there.
#[derive(Clone, Debug, Default)]
pub struct TableElement(Option<i64>);

impl Exercised for TableElement {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String) {
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

    fn look(object: &str) -> RequestWords {
        words(&["GET", object])
    }

    fn shown(&self) -> String {
        self.0.map_or_else(|| "-".to_owned(), |value| value.to_string())
    }
}

/// A URL: its last crawl, crawls and links, if it is there.
#[derive(Clone, Debug, Default)]
pub struct Url(Option<(u64, u32, i64)>);

impl Exercised for Url {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String) {
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

    fn look(object: &str) -> RequestWords {
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
pub struct Host(Option<(u64, u32, i64)>);

impl Exercised for Host {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String) {
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

    fn look(object: &str) -> RequestWords {
        words(&["HIS.GET", object])
    }

    fn shown(&self) -> String {
        let Some((day, days, urls)) = self.0 else { return "-".to_owned() };
        let country = if days == 0 { "" } else { "de" };
        format!("[day :{day} days :{days} country {country} urls :{urls} delay :0]")
    }
}
