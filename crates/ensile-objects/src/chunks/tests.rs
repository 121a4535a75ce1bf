//! Pieces of long objects, and walks that stop between them.

use ensile_base::limits::OBJECT_PIECE_BYTES;
use ensile_base::{Epoch, Tid};
use ensile_durability::CheckpointBlock;

use super::{Assembly, WalkPlace};
use crate::format::{BodyForm, ObjectBody, PiecePlace};

fn tid() -> Tid {
    Tid::first_of(Epoch::new(3))
}

fn piece(offset: u64, bytes: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    piece_of(&Assembly::default(), tid(), 4, offset, bytes)
}

fn piece_of(
    assembly: &Assembly,
    tid: Tid,
    total: u64,
    offset: u64,
    bytes: &[u8],
) -> Result<Option<Vec<u8>>, &'static str> {
    let place = PiecePlace { total, offset };
    let form = BodyForm::Piece(place);
    assembly.add(tid, &ObjectBody { form, version: 1, key: b"key", bytes }, place)
}

#[test]
fn o5_a_long_object_fills_several_blocks_and_keeps_its_tid() {
    let object: Vec<u8> = (0..9 * OBJECT_PIECE_BYTES + 5).map(|at| (at / 7) as u8).collect();
    let mut resume = Vec::new();
    let mut blocks = 0;
    let mut pieces = 0;
    let mut block = CheckpointBlock::new();
    let mut place = WalkPlace::from_bytes(&mut resume, 5);
    let mut is_through = place.push(&mut block, tid(), &ObjectBody::whole(1, b"key", &object));
    loop {
        blocks += 1;
        pieces += block.entries();
        assert!(block.entries() > 0, "an empty block has room for a piece");
        if is_through {
            break;
        }
        block = CheckpointBlock::new();
        is_through = WalkPlace::from_bytes(&mut resume, 0).push_waiting(&mut block);
    }
    assert_eq!((pieces, blocks > 2), (10, true));
    assert_eq!(WalkPlace::from_bytes(&mut resume, 0).next(), 5, "the place stays");
    assert!(resume.capacity() < 1000, "what the object took is given back");
}

#[test]
fn o5_pieces_in_any_order_make_the_object_and_others_are_refused() {
    let assembly = Assembly::default();
    let add = |offset, bytes: &[u8]| piece_of(&assembly, tid(), 4, offset, bytes);
    assert_eq!(add(2, b"cd"), Ok(None));
    assert!(!assembly.is_whole());
    let later = tid().successor().expect("few");
    assert!(piece_of(&assembly, later, 4, 0, b"ab").is_err(), "of another moment");
    assert!(piece_of(&assembly, tid(), 5, 0, b"ab").is_err(), "of another length");
    assert_eq!(add(0, b"ab"), Ok(Some(b"abcd".to_vec())));
    assert!(assembly.is_whole());
    assert!(piece(3, b"cd").is_err() && piece(u64::MAX, b"a").is_err() && piece(0, b"").is_err());
}
