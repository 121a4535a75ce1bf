//! Entry bodies, with and without before-images.

use super::*;

/// One write of every form, and the bytes that each takes.
const FORMS: [(LoggedWrite<'static>, usize); 8] = [
    (write(b"key", Some(b"value"), Before::NotRecorded), bytes(3, 5)),
    (write(b"", None, Before::NotRecorded), bytes(0, 0)),
    (write(&[0; 300], Some(b""), Before::NotRecorded), bytes(300, 0)),
    (write(b"key", Some(b"value"), Before::Absent), bytes(3, 5) + image_bytes(0)),
    (write(b"key", Some(b""), Before::Value(b"old")), bytes(3, 0) + image_bytes(3)),
    (write(b"key", Some(b"new"), Before::Value(b"")), bytes(3, 3) + image_bytes(0)),
    (write(b"key", None, Before::Value(b"old")), bytes(3, 0) + image_bytes(3)),
    (write(b"", None, Before::Value(b"")), bytes(0, 0) + image_bytes(0)),
];

const fn write(
    key: &'static [u8],
    value: Option<&'static [u8]>,
    before: Before<'static>,
) -> LoggedWrite<'static> {
    LoggedWrite { table: 7, key, value, before }
}

fn add(body: &mut Vec<u8>, write: &LoggedWrite<'_>) {
    let image = match write.before {
        Before::NotRecorded => Image::NotRecorded,
        Before::Absent => Image::Absent,
        Before::Value(image) => Image::Bytes(image.len()),
    };
    encode(body, write.table, write.key, write.value, image);
    if let Before::Value(image) = write.before {
        body.extend_from_slice(image);
    }
}

#[test]
fn a_key_and_its_value_are_the_same_together() {
    for (key, value) in
        [(&b"key"[..], &b"value"[..]), (b"", b"value"), (b"key", b""), (b"", b""), (&[7; 300], &[8; 9000])]
    {
        let (mut apart, mut together) = (Vec::new(), Vec::new());
        encode(&mut apart, 7, key, Some(value), Image::NotRecorded);
        encode_together(&mut together, 7, key.len(), &[key, value].concat());
        assert_eq!(together, apart);
    }
}

#[test]
fn what_is_encoded_comes_back_and_a_delete_of_an_absent_key_is_no_known_form() {
    let mut body = Vec::new();
    let mut length = 0;
    for (write, bytes) in &FORMS {
        add(&mut body, write);
        length += bytes;
        assert_eq!(body.len(), length, "{write:?}");
    }
    let writes: Vec<_> = Writes(&body).map(|write| write.expect("whole")).collect();
    assert_eq!(writes, FORMS.map(|(write, _)| write));
    let mut body = Vec::new();
    encode(&mut body, 7, b"key", None, Image::Absent);
    assert_eq!(Writes(&body).collect::<Vec<_>>(), [Err(UNKNOWN.to_owned())]);
}

#[test]
fn a_cut_body_is_an_error_at_every_length() {
    for (write, bytes) in &FORMS {
        let mut body = Vec::new();
        add(&mut body, write);
        for length in 1..*bytes {
            let found: Vec<_> = Writes(&body[..length]).collect();
            assert_eq!(found, [Err(CUT.to_owned())], "{write:?} cut at {length}");
        }
    }
}

/// The only form of a write that programs knew before there were before-images, read as they read it.
fn split_without_images(body: &[u8]) -> Option<&[u8]> {
    let (header, rest) = body.split_first_chunk::<10>()?;
    let (_, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([header[4], header[5]])))?;
    match u32::from_le_bytes([header[6], header[7], header[8], header[9]]) {
        u32::MAX => Some(rest),
        length => Some(rest.split_at_checked(length as usize)?.1),
    }
}

#[test]
fn a_program_that_knows_no_before_images_reads_what_has_none_and_refuses_the_rest() {
    for (write, _) in &FORMS {
        let mut body = Vec::new();
        add(&mut body, write);
        // Whatever follows: no entry is as long as the length that it would have to be.
        body.extend_from_slice(&[0; 1 << 16]);
        let read = split_without_images(&body);
        assert_eq!(read.is_some(), write.before == Before::NotRecorded, "{write:?}");
    }
}

/// The bytes of a block of hexadecimal in the document, comments left out.
fn hex(block: &str) -> Vec<u8> {
    let digits: String =
        block.lines().map(|line| line.split('|').next().unwrap_or_default()).collect::<Vec<_>>().join(" ");
    digits.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect()
}

#[test]
fn the_document_shows_what_is_written() {
    let document = include_str!("../../../../../docs/internals/formats/log.md");
    let section = document.split("## Entry bodies").nth(1).expect("its section");
    let shown = section.split("```hex").nth(1).and_then(|rest| rest.split("```").next()).expect("its bytes");
    let mut body = Vec::new();
    for (key, value, before) in [
        (b"k1", Some(&b"new"[..]), Before::NotRecorded),
        (b"k2", Some(b"new"), Before::Value(b"old!")),
        (b"k3", Some(b"new"), Before::Absent),
        (b"k4", None, Before::Value(b"old!")),
    ] {
        add(&mut body, &LoggedWrite { table: 2, key, value, before });
    }
    assert_eq!(hex(shown), body);
}
