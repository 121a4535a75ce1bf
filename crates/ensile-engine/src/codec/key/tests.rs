//! ORDER, PREFIX-FREE, ROUND TRIP, and the documented bytes.
//!
//! Neighbours: `docs/internals/formats/rows.md` is what `documented_bytes` holds the code to.

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::codec::format_examples::examples;

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

/// All invariants, for a pair of keys and bytes that happen to stand behind the first.
fn holds<K: Key + Debug>(a: &K, b: &K, behind: &[u8]) {
    // ORDER
    assert_eq!(a.cmp(b), last(a).cmp(&last(b)), "last forms of {a:?} and {b:?}");
    assert_eq!(a.cmp(b), delimited(a).cmp(&delimited(b)), "delimited forms of {a:?} and {b:?}");
    // PREFIX-FREE
    assert!(a == b || !delimited(b).starts_with(&delimited(a)), "{a:?} begins {b:?}");
    // ROUND TRIP
    assert_eq!(K::decode(&last(a)).as_ref(), Ok(a));
    let mut bytes = delimited(a);
    bytes.extend_from_slice(behind);
    let mut rest = bytes.as_slice();
    assert_eq!(K::decode_delimited(&mut rest).as_ref(), Ok(a));
    assert_eq!(rest, behind);
}

/// What decodes encodes to the same bytes: no value has two encodings, and no bytes make the decoder panic.
fn hostile<K: Key + Debug>(bytes: &[u8]) {
    if let Ok(key) = K::decode(bytes) {
        assert_eq!(last(&key), bytes);
    }
    let mut rest = bytes;
    if let Ok(key) = K::decode_delimited(&mut rest) {
        assert_eq!(delimited(&key), bytes[..bytes.len() - rest.len()]);
    }
}

/// Bytes from the corners of the escape: NULs, its marks, and their complements.
fn nasty_byte() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0x00u8), 2 => Just(0xFF), 2 => Just(0x01), 1 => Just(0xFE), 1 => any::<u8>()]
}

fn nasty_bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(nasty_byte(), 0..9)
}

fn nasty_text() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just('\0'), Just('\u{1}'), Just('a'), Just('\u{7f}'), Just('ÿ'), any::<char>()], 0..7)
        .prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn small_unsigned(a: u8, b: u8, behind in nasty_bytes()) { holds(&a, &b, &behind); }

    #[test]
    fn unsigned(a: u64, b: u64, c: u128, d: u128, behind in nasty_bytes()) {
        holds(&a, &b, &behind);
        holds(&c, &d, &behind);
        holds(&(a as u16), &(b as u16), &behind);
        holds(&(a as u32), &(b as u32), &behind);
    }

    #[test]
    fn signed(a: i64, b: i64, c: i128, d: i128, behind in nasty_bytes()) {
        holds(&a, &b, &behind);
        holds(&c, &d, &behind);
        holds(&(a as i8), &(b as i8), &behind);
        holds(&(a as i16), &(b as i16), &behind);
        holds(&(a as i32), &(b as i32), &behind);
    }

    #[test]
    fn bools_and_chars(a: bool, b: bool, c: char, d: char, behind in nasty_bytes()) {
        holds(&a, &b, &behind);
        holds(&c, &d, &behind);
        holds(&(), &(), &behind);
    }

    #[test]
    fn floats(a: u64, b: u64, behind in nasty_bytes()) {
        holds(&TotalF64(f64::from_bits(a)), &TotalF64(f64::from_bits(b)), &behind);
        holds(&TotalF32(f32::from_bits(a as u32)), &TotalF32(f32::from_bits(b as u32)), &behind);
    }

    #[test]
    fn text(a in nasty_text(), b in nasty_text(), behind in nasty_bytes()) { holds(&a, &b, &behind); }

    #[test]
    fn bytes(a in nasty_bytes(), b in nasty_bytes(), behind in nasty_bytes()) { holds(&a, &b, &behind); }

    #[test]
    fn arrays(a: [u8; 5], b: [u8; 5], behind in nasty_bytes()) { holds(&a, &b, &behind); }

    #[test]
    fn options(a in option::of(nasty_text()), b in option::of(nasty_text()), behind in nasty_bytes()) {
        holds(&a, &b, &behind);
        holds(&Some(a.clone()), &Some(b.clone()), &behind);
        holds(&Some(a), &None, &behind);
    }

    #[test]
    fn descending(a in nasty_bytes(), b in nasty_bytes(), c: i32, d: i32, behind in nasty_bytes()) {
        holds(&Descending(a.clone()), &Descending(b.clone()), &behind);
        holds(&Descending(Descending(a.clone())), &Descending(Descending(b.clone())), &behind);
        holds(&Descending((c, a.clone())), &Descending((d, b.clone())), &behind);
        holds(&(Descending(a), c), &(Descending(b), d), &behind);
        holds(&Descending(c), &Descending(d), &behind);
    }

    #[test]
    fn tuples_of_text(
        a in (nasty_bytes(), nasty_text(), nasty_bytes()),
        b in (nasty_bytes(), nasty_text(), nasty_bytes()),
        behind in nasty_bytes(),
    ) {
        holds(&a, &b, &behind);
        // Pairs with an equal beginning are where the end of a component decides.
        holds(&a, &(a.0.clone(), a.1.clone(), b.2.clone()), &behind);
        holds(&a, &(a.0.clone(), b.1.clone(), a.2.clone()), &behind);
    }

    #[test]
    fn nested(
        a in ((nasty_bytes(), option::of(nasty_bytes())), any::<i16>(), (nasty_text(),)),
        b in ((nasty_bytes(), option::of(nasty_bytes())), any::<i16>(), (nasty_text(),)),
        behind in nasty_bytes(),
    ) {
        holds(&a, &b, &behind);
        holds(&Some(Descending(a.clone())), &Some(Descending(b.clone())), &behind);
        holds(&(a.clone(), b.clone()), &(a.clone(), a.clone()), &behind);
    }

    #[test]
    fn tuples_of_eight(
        a in (any::<u8>(), any::<i8>(), any::<bool>(), any::<char>(), nasty_text(), nasty_bytes(), any::<u32>(), nasty_text()),
        b in (any::<u8>(), any::<i8>(), any::<bool>(), any::<char>(), nasty_text(), nasty_bytes(), any::<u32>(), nasty_text()),
        behind in nasty_bytes(),
    ) {
        holds(&a, &b, &behind);
    }

    #[test]
    fn decoding_never_panics(bytes in prop_oneof![vec(nasty_byte(), 0..24), vec(any::<u8>(), 0..24)]) {
        hostile::<u8>(&bytes);
        hostile::<i128>(&bytes);
        hostile::<bool>(&bytes);
        hostile::<char>(&bytes);
        hostile::<TotalF64>(&bytes);
        hostile::<()>(&bytes);
        hostile::<[u8; 3]>(&bytes);
        hostile::<String>(&bytes);
        hostile::<Vec<u8>>(&bytes);
        hostile::<Option<Option<bool>>>(&bytes);
        hostile::<Option<String>>(&bytes);
        hostile::<Descending<String>>(&bytes);
        hostile::<Descending<Option<u16>>>(&bytes);
        hostile::<(String, Vec<u8>)>(&bytes);
        hostile::<(Option<Vec<u8>>, Descending<(u8, String)>, Vec<u8>)>(&bytes);
    }
}

/// The stored format: these bytes are in databases and must never change.
#[test]
fn documented_bytes() {
    let text = |text: &str| text.to_string();
    let written = [
        ("0x01020304u32", last(&0x0102_0304u32)),
        ("-1i16", last(&-1i16)),
        ("1i16", last(&1i16)),
        ("true", last(&true)),
        ("'a'", last(&'a')),
        ("TotalF32(1.0)", last(&TotalF32(1.0))),
        ("TotalF32(-1.0)", last(&TotalF32(-1.0))),
        ("[7u8, 0, 9]", last(&[7u8, 0, 9])),
        (r#""a\0b""#, last(&text("a\0b"))),
        (r#""a\0b" delimited"#, delimited(&text("a\0b"))),
        ("vec![0u8] delimited", delimited(&vec![0u8])),
        ("None::<u8>", last(&None::<u8>)),
        ("Some(9u8)", last(&Some(9u8))),
        ("Descending(1u16)", last(&Descending(1u16))),
        (r#"Descending("a")"#, last(&Descending(text("a")))),
        (r#"("a", 2u8)"#, last(&(text("a"), 2u8))),
        (r#"(2u8, "a")"#, last(&(2u8, text("a")))),
        (r#"(2u8, "a") delimited"#, delimited(&(2u8, text("a")))),
    ];
    assert_eq!(examples("## Keys"), written);
}

#[test]
fn documented_names() {
    assert_eq!(<(u16, u8, u32)>::type_name(), "(u16,u8,u32)");
    assert_eq!(<(String,)>::type_name(), "(string)");
    assert_eq!(<Vec<u8>>::type_name(), "bytes");
    assert_eq!(<[u8; 16]>::type_name(), "[u8;16]");
    assert_eq!(<Option<i64>>::type_name(), "option<i64>");
    assert_eq!(<Descending<char>>::type_name(), "descending<char>");
    assert_eq!((TotalF64::type_name(), TotalF32::type_name()), ("f64".to_string(), "f32".to_string()));
    assert_eq!((<()>::type_name(), bool::type_name()), ("()".to_string(), "bool".to_string()));
}

#[test]
fn a_borrowed_form_has_the_encoding_of_the_key() {
    fn same<K: Key>(key: &K, form: &(impl AsKey<K> + ?Sized)) {
        let (mut in_last, mut in_delimited) = (KeyBuffer::new(), KeyBuffer::new());
        form.encode(&mut in_last);
        form.encode_delimited(&mut in_delimited);
        assert_eq!((in_last.as_ref(), in_delimited.as_ref()), (&*last(key), &*delimited(key)));
    }
    same(&"a\0b".to_string(), "a\0b");
    same(&"a\0b".to_string(), &&"a\0b".to_string());
    same(&b"a\0b".to_vec(), &b"a\0b"[..]);
    same(&b"a\0b".to_vec(), b"a\0b");
    same(&(1u16, "x".to_string(), b"y".to_vec()), &(1, "x", b"y"));
    same(&Some("x".to_string()), &Some("x"));
    same(&Descending("x".to_string()), &Descending("x"));
}

#[test]
fn a_struct_is_encoded_as_the_tuple_of_its_fields() {
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
    struct Place {
        country: String,
        town: String,
        number: i32,
    }
    crate::composite_key!(Place { country: String, town: String, number: i32 });
    let place = Place { country: "ch".into(), town: "Zug".into(), number: -7 };
    let other = Place { country: "c".into(), town: "hZug".into(), number: -7 };
    assert_eq!(last(&place), last(&("ch".to_string(), "Zug".to_string(), -7)));
    holds(&place, &other, b"\0");
    assert_eq!(Place::type_name(), "(string,string,i32)");
}

#[test]
fn long_keys_keep_their_order_beyond_the_inline_buffer() {
    let long = |end: &str| (1u8, "x\0".repeat(100), end.to_string());
    holds(&long("a"), &long("b"), b"");
    holds(&Descending(long("a")), &Descending(long("b")), b"\0\x01");
}
