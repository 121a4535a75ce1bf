//! Round trip, hostile bytes and the documented bytes.
//!
//! Neighbours: `docs/internals/formats/rows.md` is what `documented_bytes` holds the code to.

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::*;
use crate::codec::ValueBuffer;
use crate::codec::format_examples::examples;

fn bytes_of(value: &impl Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut ValueBuffer::new(&mut bytes));
    bytes
}

fn round_trip<V: Value + PartialEq + Debug>(value: &V) {
    let bytes = bytes_of(value);
    assert_eq!(V::decode(&bytes).as_ref(), Ok(value));
    assert_eq!(V::view(&bytes, |seen| seen == value), Ok(true));
}

fn hostile<V: Value>(bytes: &[u8]) {
    if let Ok(value) = V::decode(bytes) {
        assert_eq!(bytes_of(&value), bytes, "no value has two encodings");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Row {
    balance: i64,
    count: u32,
    tag: [u8; 4],
}
crate::fixed_layout!(Row { balance: i64, count: u32, tag: [u8; 4] }, "Row v1");

proptest! {
    #[test]
    fn values_come_back(
        number: u64, wide: i128, flag: bool, letter: char, text: String, blob: Vec<u8>, array: [u8; 7],
        option: Option<Option<String>>,
    ) {
        round_trip(&number);
        round_trip(&wide);
        round_trip(&(number as i16));
        round_trip(&flag);
        round_trip(&letter);
        round_trip(&text);
        round_trip(&blob);
        round_trip(&array);
        round_trip(&option);
        round_trip(&());
        round_trip(&(text.clone(),));
        round_trip(&(text.clone(), number));
        round_trip(&(option.clone(), blob.clone(), (flag, text.clone()), letter));
        round_trip(&(1u8, flag, number, (), blob.clone(), letter, array, text.clone()));
        round_trip(&Row { balance: wide as i64, count: number as u32, tag: *b"abcd" });
    }

    #[test]
    fn decoding_never_panics(bytes in vec(any::<u8>(), 0..20)) {
        hostile::<u8>(&bytes);
        hostile::<i64>(&bytes);
        hostile::<bool>(&bytes);
        hostile::<char>(&bytes);
        hostile::<()>(&bytes);
        hostile::<String>(&bytes);
        hostile::<Vec<u8>>(&bytes);
        hostile::<[u8; 4]>(&bytes);
        hostile::<Option<Option<u8>>>(&bytes);
        hostile::<Row>(&bytes);
        hostile::<(u8, String)>(&bytes);
        hostile::<((bool, u8), Vec<u8>, Option<u8>)>(&bytes);
    }
}

/// The stored format: these bytes are in databases and must never change.
#[test]
fn documented_bytes() {
    let written = [
        ("0x01020304u32", bytes_of(&0x0102_0304u32)),
        ("-2i16", bytes_of(&-2i16)),
        ("1.0f32", bytes_of(&1.0f32)),
        ("true", bytes_of(&true)),
        ("'a'", bytes_of(&'a')),
        ("\"text\"", bytes_of(&"text".to_string())),
        ("b\"blob\"", bytes_of(&b"blob".to_vec())),
        ("Some(5u8)", bytes_of(&Some(5u8))),
        ("None::<u8>", bytes_of(&None::<u8>)),
        ("(1u32, 2u32)", bytes_of(&(1u32, 2u32))),
        ("(\"hi\", true, \"a\")", bytes_of(&("hi".to_string(), true, "a".to_string()))),
    ];
    assert_eq!(examples("## Values"), written);
}

#[test]
fn documented_names() {
    let order = if cfg!(target_endian = "little") { "le" } else { "be" };
    assert_eq!(Row::type_name(), format!("Row v1[16] {order}"));
    assert_eq!(<Option<Vec<u8>>>::type_name(), "option<bytes>");
    assert_eq!(<(u32, (String,), bool)>::type_name(), "(u32,(string),bool)");
    assert_eq!((String::type_name(), f64::type_name()), ("string".to_string(), "f64".to_string()));
}

type Cents = i64;

#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Renamed {
    cents: Cents,
    count: u32,
    tag: [u8; 4],
}
crate::fixed_layout!(Renamed { cents as balance: Cents, count: u32, tag: [u8;4] }, "Row v1");

#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, packed)]
struct Packed(u8, u32);
crate::fixed_layout!(Packed { 0: u8, 1: u32 }, "Packed v1");

#[test]
fn x2_the_fields_of_a_layout_are_names_and_types_in_order_and_a_renamed_field_keeps_its_name() {
    let fields = Row::layout().expect("states them");
    assert_eq!(fields, "{balance:i64,count:u32,tag:[u8;4]}");
    assert_eq!(Renamed::layout(), Row::layout());
    assert_eq!(Packed::layout().as_deref(), Some("{0:u8,1:u32}"));
    assert_eq!(<Option<Row>>::layout(), Row::layout());
    assert_eq!(<(u32, Row, String)>::layout(), Some(format!("(-,{fields},-)")));
    assert_eq!((<(u32, String)>::layout(), u64::layout()), (None, None));
}

#[test]
fn a_tuple_knows_its_width_and_refuses_a_component_that_goes_on_behind_it() {
    assert_eq!(
        <(u64, [u8; 3], Row)>::BYTES,
        Some(bytes_of(&(1u64, [0; 3], Row { balance: 0, count: 0, tag: [0; 4] })).len())
    );
    assert_eq!(<(u64, String)>::BYTES, None);
    assert_eq!(<(String, u64)>::BYTES, None);
    let mut bytes = bytes_of(&(7u8, "end".to_string()));
    bytes[0] = 2;
    assert!(<(u8, String)>::decode(&bytes).is_err(), "a byte of the text is no part of the number");
    bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        <(Vec<u8>, String)>::decode(&bytes).unwrap_err().to_string(),
        "4 bytes where 4294967295 are due"
    );
}

#[test]
fn a_row_is_read_from_bytes_that_lie_askew() {
    let row = Row { balance: -1, count: 2, tag: *b"wxyz" };
    for shift in 0..8 {
        let mut bytes = vec![0; shift];
        bytes.extend(bytes_of(&row));
        assert_eq!(Row::view(&bytes[shift..], |seen| *seen), Ok(row), "shifted by {shift}");
    }
    assert!(Row::view(&[0; 17], |_| ()).is_err(), "longer than a row");
}

#[test]
fn a_borrowed_form_has_the_encoding_of_the_value() {
    fn same<V: Value>(value: &V, form: &(impl AsValue<V> + ?Sized)) {
        let mut bytes = Vec::new();
        form.encode_value(&mut ValueBuffer::new(&mut bytes));
        assert_eq!(bytes, bytes_of(value));
    }
    same(&"abc".to_string(), "abc");
    same(&b"abc".to_vec(), b"abc");
    same(&b"abc".to_vec(), &b"abc"[..]);
    same(&7u32, &7);
}

#[cfg(feature = "serde")]
#[test]
fn serde_values_come_back_and_refuse_what_is_too_long() {
    use super::Serde;

    let value = Serde(vec![(1u8, "one".to_string()), (2, "two".to_string())]);
    round_trip(&value);
    let mut bytes = bytes_of(&value);
    bytes.push(0);
    assert!(<Serde<Vec<(u8, String)>>>::decode(&bytes).is_err());
    assert!(<Serde<Vec<(u8, String)>>>::decode(&bytes[..4]).is_err());
    assert_eq!(<Serde<u8>>::type_name(), "postcard");
}
