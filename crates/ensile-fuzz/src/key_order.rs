//! Target: the key codec. Encodings have the order of the keys, and no delimited form begins another delimited form. An
//! encoded key decodes to the same key. A key that decodes from any bytes encodes to the same bytes.
//!
//! Neighbours: `ensile_engine::codec::key` documents these promises.

use std::fmt::Debug;

use ensile_engine::codec::{AsKey, Descending, Key, KeyBuffer, TotalF64};

use crate::input::Input;

/// A key made of an input.
trait Draw: Key + Debug {
    fn draw(input: &mut Input<'_>) -> Self;
}

macro_rules! draw_number {
    ($($type:ty),*) => {$(
        impl Draw for $type {
            fn draw(input: &mut Input<'_>) -> Self {
                Self::from_le_bytes(input.array())
            }
        }
    )*};
}

draw_number!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

impl Draw for bool {
    fn draw(input: &mut Input<'_>) -> Self {
        input.byte() % 2 == 1
    }
}

impl Draw for TotalF64 {
    fn draw(input: &mut Input<'_>) -> Self {
        Self(f64::from_bits(input.u64()))
    }
}

impl Draw for Vec<u8> {
    fn draw(input: &mut Input<'_>) -> Self {
        let count = input.choice(24);
        input.bytes(count).to_vec()
    }
}

impl Draw for String {
    fn draw(input: &mut Input<'_>) -> Self {
        Self::from_utf8_lossy(&Vec::draw(input)).into_owned()
    }
}

impl<K: Draw> Draw for Option<K> {
    fn draw(input: &mut Input<'_>) -> Self {
        bool::draw(input).then(|| K::draw(input))
    }
}

impl<K: Draw> Draw for Descending<K> {
    fn draw(input: &mut Input<'_>) -> Self {
        Self(K::draw(input))
    }
}

impl<A: Draw, B: Draw> Draw for (A, B) {
    fn draw(input: &mut Input<'_>) -> Self {
        (A::draw(input), B::draw(input))
    }
}

impl<A: Draw, B: Draw, C: Draw> Draw for (A, B, C) {
    fn draw(input: &mut Input<'_>) -> Self {
        (A::draw(input), B::draw(input), C::draw(input))
    }
}

fn last(key: &impl Key) -> Vec<u8> {
    let mut buffer = KeyBuffer::new();
    AsKey::encode(key, &mut buffer);
    buffer.as_ref().to_vec()
}

fn delimited(key: &impl Key) -> Vec<u8> {
    let mut buffer = KeyBuffer::new();
    AsKey::encode_delimited(key, &mut buffer);
    buffer.as_ref().to_vec()
}

/// Checks two keys of one type, and bytes that may be a third key.
fn check<K: Draw>(input: &mut Input<'_>) {
    let (a, b) = (K::draw(input), K::draw(input));
    assert_eq!(a.cmp(&b), last(&a).cmp(&last(&b)), "last forms of {a:?} and {b:?}");
    assert_eq!(a.cmp(&b), delimited(&a).cmp(&delimited(&b)), "delimited forms of {a:?} and {b:?}");
    assert!(a == b || !delimited(&b).starts_with(&delimited(&a)), "{a:?} begins {b:?}");
    assert_eq!(K::decode(&last(&a)).as_ref(), Ok(&a));
    let mut bytes = delimited(&a);
    let own = bytes.len();
    bytes.extend_from_slice(input.rest());
    let mut rest = bytes.as_slice();
    assert_eq!(K::decode_delimited(&mut rest).as_ref(), Ok(&a));
    assert_eq!(rest.len(), bytes.len() - own, "{a:?} takes what is not its own");

    let bytes = input.rest();
    if let Ok(key) = K::decode(bytes) {
        assert_eq!(last(&key), bytes, "{key:?} has two last forms");
    }
    let mut rest = bytes;
    if let Ok(key) = K::decode_delimited(&mut rest) {
        assert_eq!(delimited(&key), bytes[..bytes.len() - rest.len()], "{key:?} has two delimited forms");
    }
}

/// The first byte chooses a type. The next bytes make two keys of the type. The rest is decoded unchanged.
pub fn key_order(data: &[u8]) {
    const CHECKS: [fn(&mut Input<'_>); 16] = [
        check::<u32>,
        check::<i64>,
        check::<i128>,
        check::<bool>,
        check::<TotalF64>,
        check::<String>,
        check::<Vec<u8>>,
        check::<Option<Vec<u8>>>,
        check::<Option<Option<i8>>>,
        check::<Descending<String>>,
        check::<Descending<Option<Vec<u8>>>>,
        check::<(Vec<u8>, Vec<u8>)>,
        check::<(Option<String>, Descending<Vec<u8>>, u16)>,
        check::<(Descending<(Vec<u8>, u8)>, String)>,
        check::<(u8, (Option<Vec<u8>>, String), Descending<i32>)>,
        check::<Option<(Descending<Descending<Vec<u8>>>, Option<u64>)>>,
    ];
    let mut input = Input::new(data);
    let check = CHECKS[input.choice(CHECKS.len())];
    check(&mut input);
}
