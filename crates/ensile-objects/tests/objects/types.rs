//! The types of a folder (I6): which programs open it, and which types it has after an open, after a checkpoint and in
//! a copy.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::ControlFlow;

use ensile_durability::DurabilityError;
use ensile_objects::folder::{CopyOptions, backup, restore};
use ensile_objects::{
    CodecResult, ObjectKey, Objects, ObjectsBuilder, ObjectsResult, Persistent, TypeRole, codec, serde_codec,
    serde_key,
};
use ensile_sim::SimDisk;
use serde::{Deserialize, Serialize};

use crate::cause;
use crate::rig::{builder, checkpoint};

/// A program's object that is set by its operation.
macro_rules! set_by {
    ($object:ty, $operation:ty, { $($codec:tt)* }) => {
        impl Persistent for $object {
            type Operation = $operation;
            type Output = ();
            serde_codec! { $($codec)* }

            fn apply(object: &mut Option<Self>, operation: &$operation) {
                *object = Some(operation.clone().into());
            }
        }
    };
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Count(u64);
set_by!(Count, Set, { object 1, operation 1 });

#[derive(Clone, Serialize, Deserialize)]
enum Set {
    To(u64),
}

impl From<Set> for Count {
    fn from(Set::To(number): Set) -> Self {
        Self(number)
    }
}

/// Of the same bytes as `Count`, which it shows as other numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Other {
    signed: i64,
}
set_by!(Other, Set, { object 1, operation 1 });

impl From<Set> for Other {
    fn from(Set::To(number): Set) -> Self {
        Self { signed: number as i64 }
    }
}

/// The count of a program whose operation is another type of the same bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename = "Count")]
struct OtherwiseSet(u64);
set_by!(OtherwiseSet, Shift, { object 1, operation 1 });

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename = "Set")]
enum Shift {
    By(u64),
}

impl From<Shift> for OtherwiseSet {
    fn from(Shift::By(number): Shift) -> Self {
        Self(number)
    }
}

/// The count under a name of today.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Tally(u64);
set_by!(Tally, Assign, { object 1, operation 1, former_names ["Number", "Count", "Set"] });

#[derive(Clone, Serialize, Deserialize)]
enum Assign {
    To(u64),
}

impl From<Assign> for Tally {
    fn from(Assign::To(number): Assign) -> Self {
        Self(number)
    }
}

/// The count of the next version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Wide {
    low: u64,
    high: u64,
}
set_by!(Wide, Set, { object 2 or Self::older, operation 1 });

impl Wide {
    fn older(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        codec::decode(bytes).map(|Count(low)| Self { low, high: 0 })
    }
}

impl From<Set> for Wide {
    fn from(Set::To(low): Set) -> Self {
        Self { low, high: 0 }
    }
}

/// Another type of the next version.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Narrow(u32);
set_by!(Narrow, Set, { object 2 or Self::older, operation 1 });

impl Narrow {
    fn older(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        codec::decode(bytes).map(|Count(number)| Self(number as u32))
    }
}

impl From<Set> for Narrow {
    fn from(Set::To(number): Set) -> Self {
        Self(number as u32)
    }
}

/// The count of a program that states no type: the codec is by hand.
#[derive(Clone, Debug, PartialEq)]
struct Unstated(u64);

impl Persistent for Unstated {
    type Operation = Set;
    type Output = ();
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(object: &mut Option<Self>, Set::To(number): &Set) {
        *object = Some(Self(*number));
    }

    fn encode(&self, out: &mut Vec<u8>) {
        codec::encode(&self.0, out);
    }

    fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        codec::decode(bytes).map(Self)
    }

    fn encode_operation(set: &Set, out: &mut Vec<u8>) {
        codec::encode(set, out);
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<Set> {
        codec::decode(bytes)
    }
}

/// A key that states nothing, of the bytes of a `String`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct UnstatedKey(String);

impl ObjectKey for UnstatedKey {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(bytes: &[u8]) -> CodecResult<Self> {
        String::decode(bytes).map(Self)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Place(String);

impl ObjectKey for Place {
    serde_key! {}
}

/// The place under a name of today.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Site(String);

impl ObjectKey for Site {
    serde_key! { former_names ["Place"] }
}

fn open<K: ObjectKey, T: Persistent>(disk: &SimDisk) -> ObjectsResult<Objects<K, T>> {
    builder(disk, 1).open()
}

fn close<K: ObjectKey, T: Persistent>(objects: Objects<K, T>) {
    objects.close().expect("closes");
}

/// A folder of counts by name, with an object in a checkpoint and an operation behind it.
fn counts() -> SimDisk {
    let disk = SimDisk::new();
    let objects: Objects<String, Count> = open(&disk).expect("opens");
    objects.submit("a".to_owned(), &Set::To(1005)).expect("logs");
    checkpoint(&objects);
    objects.submit("b".to_owned(), &Set::To(7)).expect("logs");
    close(objects);
    disk
}

/// All objects.
fn all<T: Persistent + Clone>(objects: &Objects<String, T>) -> BTreeMap<String, T> {
    let mut all = BTreeMap::new();
    objects.for_each(|key, object| drop(all.insert(key.clone(), object.clone()))).expect("reads");
    all
}

/// Role, version and name of each type in the manifest.
fn types(disk: &SimDisk) -> Vec<String> {
    let text = String::from_utf8(disk.bytes("MANIFEST")).expect("text");
    let line = |line: &str| {
        let words: Vec<&str> = line.strip_prefix("type ")?.split(' ').collect();
        assert_ne!(words[4], "none", "each has a fingerprint: {line}");
        Some(format!("{} {} {}", words[0], words[2], words[6..].join(" ")))
    };
    text.lines().filter_map(line).collect()
}

fn contents(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    disk.files().into_iter().map(|file| (file.clone(), disk.bytes(&file))).collect()
}

/// Refusal of a program for its type of this role. The text has both types, and nothing was changed.
fn refused<K: ObjectKey, T: Persistent>(disk: &SimDisk, role: TypeRole, names: [&str; 2]) -> String {
    let before = contents(disk);
    let error = open::<K, T>(disk).map(drop).expect_err("is another type");
    let Some(DurabilityError::OtherType(other)) = cause(&error) else { panic!("{error}") };
    assert_eq!((other.found.role, &*other.found.name, &*other.given.name), (role, names[0], names[1]));
    assert_eq!(contents(disk), before, "nothing was changed");
    error.to_string()
}

#[test]
fn i6_another_type_of_object_is_refused_with_both_names_and_nothing_is_changed() {
    let disk = counts();
    let text = refused::<String, Other>(&disk, TypeRole::Object, ["Count", "Other"]);
    assert!(text.contains("has objects of type \"Count\" of version 1"), "{text}");
    assert!(text.contains("was opened with type \"Other\" of version 1"), "{text}");
    assert!(text.contains("raise its version") && text.contains("former_names"), "{text}");
    let objects: Objects<String, Count> = open(&disk).expect("is its own");
    assert_eq!(all(&objects), [("a".to_owned(), Count(1005)), ("b".to_owned(), Count(7))].into());
}

#[test]
fn i6_another_type_of_operation_is_refused_by_its_fingerprint_if_the_name_is_the_same() {
    let text = refused::<String, OtherwiseSet>(&counts(), TypeRole::Operation, ["Set", "Set"]);
    assert_eq!(text.matches("\"Set\" of version 1 (fingerprint ").count(), 2, "{text}");
}

#[test]
fn i6_another_type_of_key_is_refused() {
    let disk = counts();
    refused::<Vec<u8>, Count>(&disk, TypeRole::Key, ["string", "bytes"]);
    let text = refused::<Place, Count>(&disk, TypeRole::Key, ["string", "Place"]);
    assert!(text.contains("the type of a key cannot change"), "{text}");
}

#[test]
fn i6_a_larger_version_opens_and_the_folder_has_its_type_alone_at_the_next_checkpoint() {
    let disk = counts();
    let before = ["key 0 string", "object 1 Count", "operation 1 Set"];
    assert_eq!(types(&disk), before);
    let objects: Objects<String, Wide> = open(&disk).expect("has an up-cast");
    assert_eq!(all(&objects)["a"], Wide { low: 1005, high: 0 });
    // Its own entries have its type from here on.
    assert_eq!(types(&disk), [before[0], before[1], "object 2 Wide", before[2]]);
    objects.put("c".to_owned(), Wide { low: 1, high: 2 }).expect("logs");
    close(objects);
    refused::<String, Narrow>(&disk, TypeRole::Object, ["Wide", "Narrow"]);
    let objects: Objects<String, Wide> = open(&disk).expect("is its own");
    checkpoint(&objects);
    assert_eq!(types(&disk), [before[0], "object 2 Wide", before[2]]);
    close(objects);
    let objects: Objects<String, Wide> = open(&disk).expect("is its own");
    assert_eq!(all(&objects)["c"], Wide { low: 1, high: 2 });
}

#[test]
fn i6_a_smaller_version_gives_its_type_to_a_folder_without_older_objects() {
    let disk = counts();
    let objects: Objects<String, Wide> = open(&disk).expect("has an up-cast");
    for key in ["a", "b"] {
        objects.remove(key.to_owned()).expect("logs");
    }
    checkpoint(&objects);
    close(objects);
    assert_eq!(types(&disk), ["key 0 string", "object 2 Wide", "operation 1 Set"]);
    let objects: Objects<String, Count> = open(&disk).expect("no object is newer");
    objects.submit("c".to_owned(), &Set::To(1005)).expect("logs");
    close(objects);
    assert_eq!(types(&disk), ["key 0 string", "object 1 Count", "object 2 Wide", "operation 1 Set"]);
    refused::<String, Other>(&disk, TypeRole::Object, ["Count", "Other"]);
}

#[test]
fn i6_a_type_that_was_renamed_opens_and_the_folder_has_the_new_name_at_the_next_checkpoint() {
    let disk = counts();
    let objects: Objects<String, Tally> = open(&disk).expect("names its former name");
    assert_eq!(all(&objects)["a"], Tally(1005));
    assert_eq!(types(&disk), ["key 0 string", "object 1 Count", "operation 1 Set"]);
    checkpoint(&objects);
    assert_eq!(types(&disk), ["key 0 string", "object 1 Tally", "operation 1 Assign"]);
    close(objects);
    refused::<String, Count>(&disk, TypeRole::Object, ["Tally", "Count"]);
    drop(open::<String, Tally>(&disk).expect("is its own"));
}

#[test]
fn i6_a_key_that_was_renamed_opens() {
    let disk = SimDisk::new();
    close(open::<Place, Count>(&disk).expect("opens"));
    drop(open::<Site, Count>(&disk).expect("names its former name"));
}

#[test]
fn i6_a_folder_without_types_opens_for_any_and_refuses_others_behind_the_next_checkpoint() {
    let disk = SimDisk::new();
    let objects: Objects<UnstatedKey, Unstated> = open(&disk).expect("opens");
    objects.submit(UnstatedKey("a".to_owned()), &Set::To(1005)).expect("logs");
    checkpoint(&objects);
    close(objects);
    assert_eq!(types(&disk), [""; 0]);
    // As with every version before types, a program may show anything.
    close(open::<String, Other>(&disk).expect("opens"));
    let objects: Objects<String, Count> = open(&disk).expect("opens");
    assert_eq!((all(&objects)["a"].clone(), types(&disk)), (Count(1005), vec![]));
    checkpoint(&objects);
    assert_eq!(types(&disk), ["key 0 string", "object 1 Count", "operation 1 Set"]);
    close(objects);
    refused::<String, Other>(&disk, TypeRole::Object, ["Count", "Other"]);
}

#[test]
fn i6_a_program_that_states_nothing_opens_and_leaves_the_types() {
    let disk = counts();
    let objects: Objects<UnstatedKey, Unstated> = open(&disk).expect("is not compared");
    objects.submit(UnstatedKey("a".to_owned()), &Set::To(8)).expect("logs");
    checkpoint(&objects);
    close(objects);
    assert_eq!(types(&disk), ["key 0 string", "object 1 Count", "operation 1 Set"]);
    refused::<String, Other>(&disk, TypeRole::Object, ["Count", "Other"]);
    let objects: Objects<String, Count> = open(&disk).expect("is its own");
    assert_eq!(all(&objects)["a"], Count(8));
}

/// Real folders of a test, removed at its end.
struct Folders(std::path::PathBuf);

impl Folders {
    fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn is_refused<T: Debug>(result: ObjectsResult<T>) {
    let error = result.expect_err("is another type");
    assert!(matches!(cause(&error), Some(DurabilityError::OtherType(_))), "{error}");
}

#[test]
fn i6_copies_keep_the_types_and_a_check_compares_them() {
    let folders = Folders(std::env::temp_dir().join(format!("ensile-objects-types-{}", std::process::id())));
    std::fs::create_dir_all(&folders.0).expect("makes");
    let objects: Objects<String, Count> = ObjectsBuilder::new(folders.at("data")).open().expect("opens");
    objects.update("a".to_owned(), &Set::To(1005)).expect("is durable");
    let watch = &mut |_: &_| ControlFlow::Continue(());
    let options = CopyOptions::default();
    backup(&folders.at("data"), &folders.at("backup"), options, watch).expect("is made");
    close(objects);
    restore(&folders.at("backup"), &folders.at("restored"), None, None, watch).expect("is made");
    for folder in ["data", "backup", "restored"] {
        is_refused(Objects::<String, Other>::check(folders.at(folder)));
        let check = Objects::<String, Count>::check(folders.at(folder)).expect("is read");
        assert!(check.is_whole() && check.examination.types.len() == 3, "{check:?}");
    }
    is_refused(ObjectsBuilder::new(folders.at("restored")).open::<String, Other>());
    let objects = ObjectsBuilder::new(folders.at("restored")).open::<String, Count>().expect("is its own");
    assert_eq!(all(&objects)["a"], Count(1005));
}
