//! The documented bytes are the bytes.

use super::{BodyForm, ObjectBody, ObjectLife, PiecePlace, call_head};

const DOCUMENT: &str = include_str!("../../../../docs/internals/formats/objects.md");

fn examples() -> Vec<(Vec<u8>, String)> {
    let block = DOCUMENT.split("```hex\n").nth(1).expect("examples").split("```").next().expect("an end");
    let line = |line: &str| {
        let (bytes, says) = line.split_once('|').expect("bytes, and what they say");
        let bytes = bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hex"));
        (bytes.collect(), says.trim().to_owned())
    };
    block.lines().map(line).collect()
}

#[test]
fn the_documented_bodies_are_read_and_written_again() {
    let key = [7, 0, 0, 0, 0, 0, 0, 0];
    let body = |form, version, bytes| ObjectBody { form, version, key: &key, bytes };
    let known = [
        ("operation", body(BodyForm::Operation, 1, &[5, 0, 0, 0][..])),
        ("value", body(BodyForm::Value, 2, &[9][..])),
        ("removal", body(BodyForm::Removal, 0, &[][..])),
        ("call", body(BodyForm::Call(None), 0, &[3, 0, 0, 0, 1, 0, 0, 0, 0xaa][..])),
        ("creation", body(BodyForm::Call(Some(ObjectLife::Creation)), 0, &[3, 0, 0, 0][..])),
        ("change", body(BodyForm::Call(Some(ObjectLife::Change)), 0, &[4, 0, 0, 0][..])),
        ("end", body(BodyForm::Call(Some(ObjectLife::Removal)), 0, &[5, 0, 0, 0][..])),
        ("whole", body(BodyForm::Whole, 2, &[9][..])),
        ("absent", body(BodyForm::Absent, 0, &[][..])),
        ("piece", body(BodyForm::Piece(PiecePlace { total: 65537, offset: 65536 }), 2, &[1][..])),
    ];
    let documented = examples();
    assert_eq!(documented.len(), known.len());
    for ((name, body), (bytes, says)) in known.iter().zip(&documented) {
        assert!(says.starts_with(name), "{says}");
        assert_eq!(ObjectBody::decode(bytes).as_ref(), Ok(body), "{name}");
        let mut written = Vec::new();
        body.encode(&mut written);
        assert_eq!((&written, written.len()), (bytes, body.len()), "{name}");
        if let (BodyForm::Call(life), Some((number, parameters))) =
            (body.form, body.bytes.split_first_chunk())
        {
            let mut called = call_head(life, body.version, 7, u32::from_le_bytes(*number)).to_vec();
            called.extend_from_slice(parameters);
            assert_eq!(called, written, "{name}");
        }
    }
}

#[test]
fn what_is_cut_or_unknown_is_refused() {
    for (bytes, says) in examples() {
        let least = if says.starts_with("piece") { bytes.len() - 1 } else { 13 };
        for length in 0..least {
            assert!(ObjectBody::decode(&bytes[..length]).is_err(), "{says}, {length} bytes");
        }
    }
    let mut body = examples()[0].0.clone();
    body[0] = 99;
    assert_eq!(ObjectBody::decode(&body), Err("its form is not known"));
}
