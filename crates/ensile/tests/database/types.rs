//! Types of an application as keys and values, made with nothing but what this crate exports.
//!
//! Neighbours: the codec's own tests have the encodings; here is what its macros look like from outside.

use ensile::codec::TotalF64;
use ensile::codec::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use ensile::prelude::*;
use ensile::{composite_key, fixed_layout};

use crate::common::Folder;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EventKey {
    sensor: String,
    newest: Descending<u64>,
}
composite_key!(EventKey { sensor: String, newest: Descending<u64> });

#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[zerocopy(crate = "ensile::codec::zerocopy")]
#[repr(C)]
struct Event {
    celsius: f64,
    flags: u64,
}
fixed_layout!(Event { celsius: f64, flags: u64 }, "Event v1");

fn event(sensor: &str, time: u64) -> EventKey {
    EventKey { sensor: sensor.to_string(), newest: Descending(time) }
}

#[test]
fn structs_as_keys_and_values() -> Result<()> {
    let db = Database::in_memory()?;
    let events = db
        .define::<EventKey, Event>("events")
        .index("by_heat", 1, |key, event| (Descending(TotalF64(event.celsius)), key.sensor.clone()))
        .open()?;
    let by_heat = events.index::<(Descending<TotalF64>, String)>("by_heat")?;
    db.run(|tx| {
        for (sensor, time, celsius) in [("a", 5, 20.5), ("a", 9, -3.0), ("a\0", 7, 99.0), ("b", 1, 20.5)] {
            tx.put(&events, &event(sensor, time), &Event { celsius, flags: time })?;
        }
        Ok(())
    })?;
    db.run(|tx| {
        assert_eq!(tx.get_with(&events, &event("a", 9), |event| event.celsius)?, Some(-3.0));
        assert!(tx.update(&events, &event("a", 9), |event| event.flags += 1)?);
        let newest = tx.first(&events, event("a", u64::MAX)..)?;
        assert_eq!(newest, Some((event("a", 9), Event { celsius: -3.0, flags: 10 })));
        let hottest = tx.range(&by_heat, ..).map(|row| row.map(|row| row.0)).collect::<Result<Vec<_>>>()?;
        assert_eq!(hottest, [event("a\0", 7), event("a", 5), event("b", 1), event("a", 9)]);
        let at_20_5 = tx.range(&by_heat, Prefix((Descending(TotalF64(20.5)),)));
        assert_eq!(at_20_5.count(), 2);
        Ok(())
    })
}

/// The event of a machine with the other byte order: the same name but for that.
struct OfTheOtherOrder;

impl Value for OfTheOtherOrder {
    const BYTES: Option<usize> = Some(16);

    fn encode(&self, out: &mut ValueBuffer<'_>) {
        out.extend_from_slice(&[0; 16]);
    }

    fn decode(_bytes: &[u8]) -> std::result::Result<Self, CodecError> {
        Ok(Self)
    }

    fn type_name() -> String {
        let name = Event::type_name();
        if let Some(name) = name.strip_suffix(" le") {
            format!("{name} be")
        } else {
            name.replace(" be", " le")
        }
    }
}

#[test]
fn rows_from_a_machine_of_the_other_byte_order_are_refused_by_name() -> Result<()> {
    let db = Database::in_memory()?;
    drop(db.table::<u64, OfTheOtherOrder>("events")?);
    let Err(refused) = db.table::<u64, Event>("events") else {
        panic!("its numbers would be read backwards")
    };
    let text = refused.to_string();
    assert!(text.contains("Event v1[16] le") && text.contains("Event v1[16] be"), "{text}");
    Ok(())
}

/// The event with its fields turned: of the same name and width.
#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[zerocopy(crate = "ensile::codec::zerocopy")]
#[repr(C)]
struct Turned {
    flags: u64,
    celsius: f64,
}
fixed_layout!(Turned { flags: u64, celsius: f64 }, "Event v1");

/// The event of a codec by hand, which states no fields.
#[derive(Clone)]
struct Unstated(Event);

impl Value for Unstated {
    fn encode(&self, out: &mut ValueBuffer<'_>) {
        self.0.encode(out);
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, CodecError> {
        Event::decode(bytes).map(Self)
    }

    fn type_name() -> String {
        Event::type_name()
    }
}

/// Opens the events of the folder as rows of type `V`, adds one if given, and closes.
fn events<V: Value + Clone>(folder: &Folder, row: Option<V>) -> Result<()> {
    let db = Database::open(folder.path())?;
    let events = db.table::<u64, V>("events")?;
    row.iter().try_for_each(|row| db.run(|tx| tx.put(&events, &1, row)))?;
    drop(events);
    db.close()
}

fn refusal(result: Result<()>) -> String {
    match result {
        Err(Error::Misuse(text)) => text,
        other => panic!("its fields are others: {other:?}"),
    }
}

/// Fields of the events in the folder.
fn fields(folder: &Folder) -> Result<Option<String>> {
    let (_, tables) = ensile::folder::inspect(folder.path())?;
    let events = tables.into_iter().find(|table| table.name.as_deref() == Some("events")).expect("is there");
    Ok(events.value_layout)
}

#[test]
fn x2_rows_of_other_fields_are_refused_with_both_lists_and_stay() -> Result<()> {
    let folder = Folder::new();
    let row = Event { celsius: 20.5, flags: 7 };
    events(&folder, Some(row))?;
    let text = refusal(events::<Turned>(&folder, None));
    assert!(text.contains("with the fields {celsius:f64,flags:u64}, not {flags:u64,celsius:f64}"), "{text}");
    let db = Database::open(folder.path())?;
    let events = db.table::<u64, Event>("events")?;
    assert_eq!(db.run(|tx| tx.get(&events, &1))?, Some(row));
    // An open table is compared, too.
    refusal(db.table::<u64, Turned>("events").map(drop));
    db.close()
}

#[test]
fn x2_a_table_without_fields_opens_and_has_the_fields_from_then_on() -> Result<()> {
    let folder = Folder::new();
    events(&folder, Some(Unstated(Event { celsius: 20.5, flags: 7 })))?;
    assert_eq!(fields(&folder)?, None);
    events::<Event>(&folder, None)?;
    let list = "{celsius:f64,flags:u64}";
    assert_eq!(fields(&folder)?.as_deref(), Some(list));
    refusal(events::<Turned>(&folder, None));
    // A type that states nothing leaves the fields.
    events::<Unstated>(&folder, None)?;
    assert_eq!(fields(&folder)?.as_deref(), Some(list));
    Ok(())
}

#[test]
fn every_shipped_key_type_keeps_its_order() -> Result<()> {
    fn in_order<K: Key + Clone + std::fmt::Debug>(db: &Database, name: &str, mut keys: Vec<K>) -> Result<()> {
        let table = db.table::<K, ()>(name)?;
        db.run(|tx| keys.iter().try_for_each(|key| tx.put(&table, key, &())))?;
        let found =
            db.run(|tx| tx.range(&table, ..).map(|row| row.map(|row| row.0)).collect::<Result<Vec<K>>>())?;
        keys.sort();
        assert_eq!(found, keys);
        Ok(())
    }
    let db = Database::in_memory()?;
    in_order(&db, "i8", vec![0i8, -1, 1, i8::MIN, i8::MAX])?;
    in_order(&db, "u128", vec![0u128, 1 << 100, u128::MAX])?;
    in_order(&db, "bool", vec![true, false])?;
    in_order(&db, "char", vec!['z', 'a', 'ÿ', '\0', char::MAX])?;
    in_order(&db, "array", vec![[1u8, 0], [0, 1], [0, 0]])?;
    in_order(&db, "option", vec![Some("b".to_string()), None, Some(String::new()), Some("a".to_string())])?;
    in_order(
        &db,
        "descending",
        vec![Descending("b".to_string()), Descending("ba".to_string()), Descending("a".to_string())],
    )?;
    in_order(
        &db,
        "nested",
        vec![((1u8, b"\0".to_vec()), Some(-1i16)), ((1, b"".to_vec()), None), ((0, b"x".to_vec()), Some(3))],
    )?;
    in_order(
        &db,
        "float",
        vec![
            TotalF64(0.0),
            TotalF64(-0.0),
            TotalF64(f64::NEG_INFINITY),
            TotalF64(1e-300),
            TotalF64(f64::NAN),
        ],
    )
}

#[cfg(feature = "serde")]
#[test]
fn serde_types_as_values() -> Result<()> {
    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Order {
        customer: String,
        lines: Vec<(u32, u8)>,
    }
    ensile::serde_value!(Order, "Order v1");

    let db = Database::in_memory()?;
    let orders = db
        .define::<u32, Order>("orders")
        .index("by_customer", 1, |_id, order| order.customer.clone())
        .open()?;
    let tags = db.table::<u32, Serde<Vec<String>>>("tags")?;
    let by_customer = orders.index::<String>("by_customer")?;
    let order = Order { customer: "ada".into(), lines: vec![(7, 1), (9, 3)] };
    db.run(|tx| {
        tx.put(&orders, &1, &order)?;
        tx.put(&tags, &1, &Serde(vec!["new".into()]))
    })?;
    assert_eq!(db.run(|tx| tx.find(&by_customer, "ada").collect::<Result<Vec<_>>>())?, [(1, order)]);
    assert_eq!(db.run(|tx| tx.get(&tags, &1))?, Some(Serde(vec!["new".to_string()])));
    Ok(())
}
