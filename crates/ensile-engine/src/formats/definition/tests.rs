//! Tables' definitions as bytes.

use super::*;
use crate::codec::format_examples::examples;

fn definition() -> Definition {
    Definition {
        id: 7,
        key_type: "(u16,u8)".to_owned(),
        value_type: "Customer v1[16] le".to_owned(),
        value_layout: Some("{id:u64,credit:i64}".to_owned()),
        indexes: vec![IndexDefinition {
            name: "by_name".to_owned(),
            version: 3,
            unique: true,
            key_type: "string".to_owned(),
        }],
    }
}

#[test]
fn the_documented_bytes_are_the_ones_that_are_written() {
    let shown: Vec<u8> = examples("## The catalogue").into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(shown, definition().encode());
}

#[test]
fn definitions_come_back_and_cut_ones_are_refused() {
    let definition = definition();
    let bytes = definition.encode();
    // The definition of a program that does not know fields ends before them.
    let older = Definition { value_layout: None, ..definition.clone() };
    let older_bytes = older.encode();
    assert_eq!(Definition::decode(&older_bytes), Some(older));
    for length in (0..bytes.len()).filter(|length| *length != older_bytes.len()) {
        assert_eq!(Definition::decode(&bytes[..length]), None, "cut at {length}");
    }
    assert_eq!(Definition::decode(&bytes), Some(definition));
}
