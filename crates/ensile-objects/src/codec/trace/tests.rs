//! Formats that the trace finds, and types without a format.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::de::{DeserializeOwned, Deserializer};
use serde::{Deserialize, Serialize};

use super::trace;
use crate::codec::shape_of;
use crate::shape::TypeShape;

/// Name and description of a type.
fn found<T: DeserializeOwned>() -> (String, Option<String>) {
    let traced = trace::<T>().expect("a name");
    (traced.name, traced.description)
}

fn described<T: DeserializeOwned>() -> String {
    found::<T>().1.expect("a format")
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
struct Account {
    owner: String,
    cents: i64,
    limits: Option<(u8, u8, f32)>,
    seen: BTreeMap<u32, bool>,
}

#[test]
fn i6_a_struct_is_its_fields_in_order_and_its_name_is_apart() {
    let (name, description) = found::<Account>();
    assert_eq!(name, "Account");
    let text = "struct 0:{5:owner,5:cents,6:limits,4:seen}(string,i64,option<(u8*2,f32)>,map<u32,bool>)";
    assert_eq!(description, Some(text.replace(",5:", "5:").replace(",6:", "6:").replace(",4:", "4:")));
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
enum Change {
    Clear,
    Add(u64),
    Move(u16, u16),
    Set { account: Box<Account>, by: Kind },
}

#[derive(Deserialize)]
enum Kind {
    Person,
    Machine(#[expect(dead_code, reason = "the trace makes values and reads none")] Inner),
}

#[derive(Deserialize)]
enum Inner {
    One,
    Two,
}

#[test]
fn i6_each_variant_of_each_enum_is_found_wherever_it_stands() {
    let text = described::<Change>();
    assert!(
        text.starts_with("enum 0:{5:Clear3:Add(u64)4:Move(u16*2)3:Set{7:account2:by}(struct 7:Account{"),
        "{text}"
    );
    assert!(text.ends_with(",enum 4:Kind{6:Person7:Machine(enum 5:Inner{3:One3:Two})})}"), "{text}");
    // Within an option, a sequence and a map, too.
    assert_eq!(
        described::<Option<Vec<HashMap<u8, Inner>>>>(),
        "option<seq<map<u8,enum 5:Inner{3:One3:Two}>>>"
    );
    assert_eq!(found::<Vec<Inner>>().0, "seq<Inner>");
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
struct Tree {
    children: Vec<Tree>,
    parent: Option<Box<Tree>>,
    kind: Kind,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
enum Term {
    Sum(Box<Term>, Box<Term>),
    Negative(Box<Term>),
    Call { name: String, arguments: Vec<Term>, block: Block },
    Number(i64),
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
struct Block(Box<Term>, Kind);

#[test]
fn i6_a_type_within_itself_is_named_by_its_number() {
    let kind = "enum 4:Kind{6:Person7:Machine(enum 5:Inner{3:One3:Two})}";
    let tree = format!("struct 0:{{8:children6:parent4:kind}}(seq<#0>,option<#0>,{kind})");
    assert_eq!(described::<Tree>(), tree);
    let term = format!(
        "enum 0:{{3:Sum(#0*2)8:Negative(#0)4:Call{{4:name9:arguments5:block}}(string,seq<#0>,struct 5:Block(#0,{kind}))\
         6:Number(i64)}}"
    );
    assert_eq!(described::<Term>(), term);
}

/// An enum whose only variant without the enum as two parts is the last.
macro_rules! pairs_and_leaf {
    ($($pair:ident)*) => {
        #[derive(Deserialize)]
        #[expect(dead_code, reason = "the trace makes values and reads none")]
        enum Expression {
            $($pair(Box<Expression>, Box<Expression>),)*
            Leaf(i64),
        }
        const PAIRS: &[&str] = &[$(stringify!($pair)),*];
    };
}
pairs_and_leaf! {
    A0 A1 A2 A3 A4 A5 A6 A7 A8 A9 B0 B1 B2 B3 B4 B5 B6 B7 B8 B9
    C0 C1 C2 C3 C4 C5 C6 C7 C8 C9 D0 D1 D2 D3 D4 D5 D6 D7 D8 D9
}

#[test]
fn i6_an_enum_of_many_pairs_of_itself_has_a_format() {
    let pairs: String = PAIRS.iter().map(|name| format!("2:{name}(#0*2)")).collect();
    assert_eq!(described::<Expression>(), format!("enum 0:{{{pairs}4:Leaf(i64)}}"));
}

#[derive(Deserialize)]
#[serde(transparent)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
struct Forest {
    trees: Vec<Forest>,
}

#[derive(Deserialize)]
#[serde(transparent)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
struct Chain(Option<Box<Chain>>);

#[derive(Deserialize)]
#[serde(from = "(u8, BTreeMap<u8, Nest>)")]
struct Nest;

impl From<(u8, BTreeMap<u8, Nest>)> for Nest {
    fn from(_: (u8, BTreeMap<u8, Nest>)) -> Self {
        Self
    }
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
enum Wood {
    Trees(Forest),
    Nothing,
}

#[derive(Deserialize)]
#[serde(transparent)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
struct Elements(Vec<Element>);

#[derive(Deserialize)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
enum Element {
    Number(u64),
    All(Elements),
}

#[test]
fn i6_a_type_within_itself_without_a_name_has_no_format() {
    assert!(trace::<Forest>().is_none() && trace::<Chain>().is_none() && trace::<Nest>().is_none());
    assert_eq!(found::<Wood>(), ("Wood".to_owned(), None));
    // A named type between ends the value.
    assert_eq!(described::<Elements>(), "seq<enum 7:Element{6:Number(u64)3:All(seq<#0>)}>");
}

#[derive(Deserialize)]
struct Twice<T>(T, T);

/// A type of 2 to the power of 5 of the type `T`.
type Twice5<T> = Twice<Twice<Twice<Twice<Twice<T>>>>>;

#[test]
fn i6_a_type_whose_values_take_too_many_calls_has_a_name_alone() {
    assert!(found::<Twice5<Twice5<()>>>().1.is_some());
    assert_eq!(found::<Twice5<Twice5<Twice5<Twice5<Twice5<Twice5<()>>>>>>>(), ("Twice".to_owned(), None));
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
struct Pair<T> {
    one: T,
    two: T,
}

#[test]
fn i6_two_types_of_one_name_are_told_apart() {
    let text = described::<(Pair<u8>, Pair<String>, Pair<u8>)>();
    let pair = |word| format!("struct 4:Pair{{3:one3:two}}({word}*2)");
    assert_eq!(text, format!("({},{},#0)", pair("u8"), pair("string")));
}

/// A number that only some values are.
#[derive(Deserialize)]
#[serde(try_from = "u64")]
struct Even(#[expect(dead_code, reason = "the trace makes values and reads none")] u64);

impl TryFrom<u64> for Even {
    type Error = &'static str;

    fn try_from(number: u64) -> Result<Self, &'static str> {
        if number.is_multiple_of(2) { Ok(Self(number)) } else { Err("odd") }
    }
}

/// Sixteen bytes, as identities are mostly written.
struct Id;

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sixteen;
        impl serde::de::Visitor<'_> for Sixteen {
            type Value = Id;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("sixteen bytes")
            }
            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Id, E> {
                if bytes.len() == 16 { Ok(Id) } else { Err(E::invalid_length(bytes.len(), &self)) }
            }
        }
        deserializer.deserialize_bytes(Sixteen)
    }
}

#[test]
fn i6_types_that_refuse_some_values_get_others() {
    assert_eq!(described::<(Even, NonZeroU32, Id)>(), "(u64,u32,bytes)");
    let address = "enum 6:IpAddr{2:V4((u8*4))2:V6((u8*16))}";
    let duration = "struct 8:Duration{4:secs5:nanos}(u64,u32)";
    assert_eq!(described::<(IpAddr, Duration)>(), format!("({address},{duration})"));
    assert_eq!(described::<(PhantomData<u8>, [u8; 32])>(), "(struct 11:PhantomData,(u8*32))");
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
struct Endless(Box<Endless>);

#[derive(Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
enum Untagged {
    Number(u64),
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
struct Refuses {
    before: u64,
    refuses: Never,
}

/// A value that nothing makes.
#[derive(Serialize)]
struct Never;

impl<'de> Deserialize<'de> for Never {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer)?;
        Err(serde::de::Error::custom("never"))
    }
}

/// A type whose code panics.
#[derive(Deserialize)]
#[serde(from = "u64")]
struct Panics;

impl From<u64> for Panics {
    fn from(_: u64) -> Self {
        panic!("on purpose")
    }
}

#[test]
fn i6_a_type_that_refuses_every_value_has_a_name_or_nothing() {
    assert_eq!(found::<Refuses>(), ("Refuses".to_owned(), None));
    assert_eq!(found::<Endless>(), ("Endless".to_owned(), None));
    assert!(trace::<Option<Panics>>().is_none() && trace::<Untagged>().is_none());
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the trace makes values and reads none")]
struct Price {
    cents: u32,
    at: Option<(u8, u8)>,
}

mod other_module {
    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "the trace makes values and reads none")]
    pub(super) enum Change {
        Set(super::Price),
        Halve,
    }
}

#[test]
fn i6_documented_shapes_are_the_ones_that_are_stored() {
    let document = include_str!("../../../../../docs/internals/formats/objects.md");
    let shapes = document.split("```text\nPrice ").nth(1).and_then(|rest| rest.split("\n```").next());
    let shape = |name: &str, described: String| {
        let shape = TypeShape::new(name, &format!("serde 1 {described}"));
        format!("{name} {:016x} serde 1 {described}", shape.fingerprint().expect("is known"))
    };
    let written =
        [shape("Price", described::<Price>()), shape("Change", described::<other_module::Change>())];
    assert_eq!(shapes.map(|shapes| format!("Price {shapes}")), Some(written.join("\n")));
    assert_eq!(
        shape_of::<Price>(),
        Some(TypeShape::new("Price", &format!("serde 1 {}", described::<Price>())))
    );
}
