//! Objects, operations and keys that serde takes, and what older and newer programs wrote.

use std::collections::BTreeMap;

use ensile_objects::{CodecResult, ObjectKey, Objects, Persistent, codec, serde_codec, serde_key};
use ensile_sim::SimDisk;
use serde::{Deserialize, Serialize};

use crate::rig::{CHECKPOINTERS, builder};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Seat {
    hall: String,
    number: u16,
}

impl ObjectKey for Seat {
    serde_key! {}
}

/// What version 1 of the program kept: a guest's name.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct First {
    guest: String,
}

impl Persistent for First {
    type Operation = String;
    type Output = ();
    serde_codec! { object 1, operation 1 }

    fn apply(seat: &mut Option<Self>, guest: &String) {
        *seat = Some(Self { guest: guest.clone() });
    }
}

/// What it keeps today: how often, too.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Second {
    guests: BTreeMap<String, u32>,
}

#[derive(Serialize, Deserialize)]
enum Visit {
    By { guest: String, times: u32 },
    Clear,
}

impl Second {
    fn older(version: u16, bytes: &[u8]) -> CodecResult<Self> {
        assert_eq!(version, 1);
        let First { guest } = codec::decode(bytes)?;
        Ok(Self { guests: [(guest, 1)].into() })
    }
}

impl Visit {
    fn older(version: u16, bytes: &[u8]) -> CodecResult<Self> {
        assert_eq!(version, 1);
        Ok(Self::By { guest: codec::decode(bytes)?, times: 1 })
    }
}

impl Persistent for Second {
    type Operation = Visit;
    type Output = usize;
    serde_codec! { object 2 or Self::older, operation 2 or Visit::older }

    fn apply(seat: &mut Option<Self>, visit: &Visit) -> usize {
        let seat = seat.get_or_insert(Self { guests: BTreeMap::new() });
        match visit {
            Visit::By { guest, times } => *seat.guests.entry(guest.clone()).or_default() += times,
            Visit::Clear => seat.guests.clear(),
        }
        seat.guests.len()
    }
}

/// The same without up-casts.
#[derive(Serialize, Deserialize)]
struct Strict(Second);

impl Persistent for Strict {
    type Operation = Visit;
    type Output = usize;
    serde_codec! { object 2, operation 2 }

    fn apply(_: &mut Option<Self>, _: &Visit) -> usize {
        unreachable!("nothing is served")
    }
}

fn seat(number: u16) -> Seat {
    Seat { hall: "large".to_owned(), number }
}

fn finish<T: Persistent>(objects: &Objects<Seat, T>, with_checkpoint: bool) {
    let asked = with_checkpoint.then(|| objects.checkpoint());
    while asked.as_ref().is_some_and(|asked| asked.outcome().is_none()) {
        objects.heartbeat_step();
        objects.logger_step(0);
        (0..CHECKPOINTERS).for_each(|checkpointer| {
            objects.checkpoint_step(checkpointer);
        });
    }
    objects.close().expect("closes");
}

fn open<T: Persistent>(disk: &SimDisk) -> ensile_objects::ObjectsResult<Objects<Seat, T>> {
    builder(disk, 1).open()
}

/// A folder of the first version: an object, and an operation behind it if there is a checkpoint.
fn first(with_checkpoint: bool) -> SimDisk {
    let disk = SimDisk::new();
    let objects = open::<First>(&disk).expect("opens");
    objects.submit(seat(7), &"Ada".to_owned()).expect("logs");
    objects.put(seat(8), First { guest: "Bob".to_owned() }).expect("logs");
    finish(&objects, with_checkpoint);
    disk
}

#[test]
fn what_serde_takes_comes_back() {
    let disk = SimDisk::new();
    for with_checkpoint in [false, true, false] {
        let objects = open::<Second>(&disk).expect("opens");
        let visit = Visit::By { guest: "Ada".to_owned(), times: 3 };
        objects.submit(seat(300), &visit).expect("logs");
        objects.submit(seat(301), &Visit::Clear).expect("logs");
        finish(&objects, with_checkpoint);
    }
    let objects = open::<Second>(&disk).expect("opens");
    let guests =
        |number| objects.read(&seat(number), |seat| seat.map(|seat| seat.guests.clone())).expect("reads");
    assert_eq!(guests(300), Some([("Ada".to_owned(), 9)].into()));
    assert_eq!(guests(301), Some(BTreeMap::new()));
    assert_eq!(guests(302), None);
}

#[test]
fn older_objects_and_operations_go_through_the_up_cast() {
    for with_checkpoint in [false, true] {
        let objects = open::<Second>(&first(with_checkpoint)).expect("opens");
        for (number, guest) in [(7, "Ada"), (8, "Bob")] {
            let guests =
                objects.read(&seat(number), |seat| seat.map(|seat| seat.guests.clone())).expect("reads");
            assert_eq!(guests, Some([(guest.to_owned(), 1)].into()), "seat {number}");
        }
    }
}

#[test]
fn versions_that_are_not_known_are_refused_before_anything_is_served() {
    for with_checkpoint in [false, true] {
        let refused =
            open::<Strict>(&first(with_checkpoint)).map(drop).expect_err("has no up-cast").to_string();
        assert!(refused.contains("it is of version 1; this program writes version 2"), "{refused}");
    }
    let disk = SimDisk::new();
    let objects = open::<Second>(&disk).expect("opens");
    objects.submit(seat(1), &Visit::Clear).expect("logs");
    finish(&objects, false);
    let refused = open::<First>(&disk).map(drop).expect_err("is newer").to_string();
    assert!(
        refused.contains("an operation is of version 2, and this program knows versions up to 1"),
        "{refused}"
    );
}

#[test]
fn bytes_that_are_of_another_type_are_refused() {
    let mut bytes = Vec::new();
    codec::encode(&("Ada", 7_u8), &mut bytes);
    let said = codec::decode::<String>(&bytes).expect_err("a byte is left");
    assert_eq!(&*said, "1 bytes stand behind it");
    assert!(codec::decode::<First>(&bytes[..2]).is_err());
    let (name, number) = codec::decode::<(String, u8)>(&bytes).expect("they are its");
    assert_eq!((&*name, number), ("Ada", 7));
}
