//! Mutations of an input, for runs that no coverage guides.
//!
//! Neighbours: `tests/corpora.rs` runs the targets on the mutated inputs.

use ensile_base::random::Random;

/// Most bytes of an input.
const INPUT_BYTES_MAX: usize = 4096;

/// Bytes at corners of encodings and lengths.
const CORNERS: [u8; 10] = [0, 1, 2, 7, 8, 9, 127, 128, 254, 255];

/// Changes `input` in one to eight places. `other` is an input for pieces.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..random.next_between(1, 8) {
        let at = random.next_below(input.len() as u64 + 1) as usize;
        let to = (at + random.next_below(16) as usize).min(input.len());
        match random.next_below(7) {
            0 if at < input.len() => input[at] ^= 1 << random.next_below(8),
            1 if at < input.len() => input[at] = CORNERS[random.next_below(CORNERS.len() as u64) as usize],
            2 => {
                let mut bytes = vec![0; random.next_between(1, 16) as usize];
                random.fill(&mut bytes);
                input.splice(at..at, bytes);
            }
            3 => drop(input.drain(at..to)),
            4 => {
                let again = input[at..to].to_vec();
                let at = random.next_below(input.len() as u64 + 1) as usize;
                input.splice(at..at, again);
            }
            5 if !other.is_empty() => {
                let from = random.next_below(other.len() as u64) as usize;
                let piece = &other[from..(from + random.next_below(64) as usize).min(other.len())];
                input.splice(at..to, piece.iter().copied());
            }
            _ => input.push(random.next_below(256) as u8),
        }
    }
    input.truncate(INPUT_BYTES_MAX);
}
