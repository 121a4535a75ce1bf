//! Lists of a history as values of redis: an element is appended, and a list is read whole.
//!
//! ```text
//! l7   a list: an item for each element
//! s7   a string: the elements, each with a comma behind
//! h7   a hash: the value of the field n is the element at the place n
//! z7   a sorted set: the member of the score n is the element at the place n
//! ```
//! Two elements at one place of a hash or a sorted set are a lost update.
//!
//! Neighbours: `workload` makes transactions of the requests; `killed_server` has the procedure.

use crate::connection::{Value, Words};

/// Number of kinds of lists. A key's kind is the rest of its number.
const KINDS: [char; 4] = ['l', 's', 'h', 'z'];

/// Name of the procedure that carries out the operations of [`SCRIPT`].
pub(crate) const PROCEDURE: &str = "carry_out";

/// Carries out operations of three words each: `r` or `a`, the key, the element. Replies the read lists.
pub(crate) const SCRIPT: &str = "
    local seen = {}
    for i = 1, #ARGV, 3 do
      local verb, key, element = ARGV[i], ARGV[i + 1], ARGV[i + 2]
      local kind = string.sub(key, 1, 1)
      if verb == 'r' then
        if kind == 'l' then seen[#seen + 1] = redis.call('LRANGE', key, 0, -1)
        elseif kind == 's' then seen[#seen + 1] = redis.call('GET', key) or ''
        elseif kind == 'h' then seen[#seen + 1] = redis.call('HGETALL', key)
        else seen[#seen + 1] = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
      elseif kind == 'l' then redis.call('RPUSH', key, element)
      elseif kind == 's' then redis.call('APPEND', key, element .. ',')
      elseif kind == 'h' then redis.call('HSET', key, redis.call('HLEN', key) + 1, element)
      else redis.call('ZADD', key, redis.call('ZCARD', key) + 1, element) end
    end
    return seen";

/// An operation on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read(u64),
    Append(u64, u64),
}

impl Operation {
    /// The words for [`SCRIPT`].
    pub(crate) fn words(self) -> [Vec<u8>; 3] {
        match self {
            Self::Read(key) => [b"r".to_vec(), name(key).into_bytes(), Vec::new()],
            Self::Append(key, element) => {
                [b"a".to_vec(), name(key).into_bytes(), element.to_string().into_bytes()]
            }
        }
    }
}

fn kind(key: u64) -> char {
    KINDS[(key % KINDS.len() as u64) as usize]
}

/// The key of redis.
pub(crate) fn name(key: u64) -> String {
    format!("{}{key}", kind(key))
}

fn request(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// True if an append needs no place.
pub(crate) fn takes_blind_appends(key: u64) -> bool {
    matches!(kind(key), 'l' | 's')
}

/// The request that reads a list.
pub(crate) fn read_request(key: u64) -> Words {
    let name = name(key);
    request(&match kind(key) {
        'l' => format!("LRANGE {name} 0 -1"),
        's' => format!("GET {name}"),
        'h' => format!("HGETALL {name}"),
        _ => format!("ZRANGE {name} 0 -1 WITHSCORES"),
    })
}

/// The request that appends an element behind `length` elements.
pub(crate) fn append_request(key: u64, element: u64, length: usize) -> Words {
    let (name, place) = (name(key), length + 1);
    request(&match kind(key) {
        'l' => format!("RPUSH {name} {element}"),
        's' => format!("APPEND {name} {element},"),
        'h' => format!("HSET {name} {place} {element}"),
        _ => format!("ZADD {name} {place} {element}"),
    })
}

fn number(value: &Value) -> u64 {
    let Value::Text(text) = value else { panic!("no number: {value:?}") };
    text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

/// The elements of a read list.
///
/// # Panics
/// A place has no element, or two.
pub(crate) fn elements(key: u64, value: &Value) -> Vec<u64> {
    match (kind(key), value) {
        (_, Value::Null) => Vec::new(),
        ('l', Value::List(items)) => items.iter().map(number).collect(),
        ('s', Value::Text(text)) => {
            text.split_terminator(',').map(|text| text.parse().expect("a number")).collect()
        }
        ('h' | 'z', Value::List(values)) => {
            let pair = |pair: &[Value]| match kind(key) {
                'h' => (number(&pair[0]), number(&pair[1])),
                _ => (number(&pair[1]), number(&pair[0])),
            };
            let mut placed: Vec<(u64, u64)> = values.chunks(2).map(pair).collect();
            placed.sort_unstable();
            let places = placed.iter().map(|(place, _)| *place);
            assert!(places.eq(1..=placed.len() as u64), "{}: a lost update, {placed:?}", name(key));
            placed.into_iter().map(|(_, element)| element).collect()
        }
        (_, other) => panic!("{}: {other:?}", name(key)),
    }
}
