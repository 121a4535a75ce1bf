//! Parts order as the byte strings they come from.

use ensile_base::random::Random;

use super::{KeyPart, LONG, shortest};

#[test]
fn parts_order_as_their_keys_do() {
    let mut random = Random::from_seed(3);
    let mut draw = || {
        let mut key = vec![0u8; random.next_below(12) as usize];
        for byte in &mut key {
            *byte = [0, 0, 1, b'a', 255][random.next_below(5) as usize];
        }
        key
    };
    for _ in 0..50_000 {
        let (a, b) = (draw(), draw());
        let (x, y) = (KeyPart::from_rest(&a), KeyPart::from_rest(&b));
        if x == y && x.rank == LONG {
            assert_eq!(a[..8], b[..8]);
        } else {
            assert_eq!(x.cmp(&y), a.cmp(&b), "{a:?} {b:?}");
        }
    }
}

#[test]
fn a_part_gives_its_bytes_back() {
    for length in 0..=10 {
        let key: Vec<u8> = (1..=length).collect();
        let mut bytes = Vec::new();
        KeyPart::from_rest(&key).append_to(&mut bytes);
        assert_eq!(bytes, key[..key.len().min(8)]);
    }
}

#[test]
fn the_shortest_key_of_a_slice_has_no_trailing_nul() {
    assert_eq!(shortest(0), KeyPart::from_rest(b""));
    assert_eq!(shortest(KeyPart::from_rest(b"ab\0\0").slice), KeyPart::from_rest(b"ab"));
    assert_eq!(shortest(u64::MAX), KeyPart::from_rest(&[255; 8]));
}
