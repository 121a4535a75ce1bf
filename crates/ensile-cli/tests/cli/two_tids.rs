//! N11 from outside: a picture whose every checksum is right, and in which a row has two TIDs.
//!
//! Neighbours: the durability crate compares, `docs/internals/formats/{block,pictures}.md` say what is changed here.

use std::path::{Path, PathBuf};

use ensile::checkpoint::{Schedule, Strategy};
use ensile::{Database, Durability, Readable as _, Tuning};

use crate::outside::Folder;

const UNIT_BYTES: usize = 4096;
const HEADER_BYTES: usize = 80;
const PAGE: u8 = 6;
const PENDING_REMOVES: u8 = 8;
const ROOT: u8 = 10;
const ROOT_WITH_TAILS: u8 = 12;
/// Of an entry: TID and length.
const FRAME_BYTES: usize = 12;

fn crc32c(begun: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(!begun, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Where blocks of this kind begin.
fn blocks(file: &[u8], kind: u8) -> Vec<usize> {
    let is_it = |at: &usize| file[*at..].starts_with(b"EnsB") && file[at + 6] == kind;
    (0..file.len()).step_by(UNIT_BYTES).filter(is_it).collect()
}

/// Where roots begin.
fn roots(file: &[u8]) -> Vec<usize> {
    [blocks(file, ROOT), blocks(file, ROOT_WITH_TAILS)].concat()
}

/// Where blocks of pending removes begin: those in units of their own, and the tails of pages.
fn beside_pages(file: &[u8]) -> Vec<usize> {
    let behind = |page: usize| page + HEADER_BYTES + (u32_at(file, page + 12) as usize).next_multiple_of(8);
    let mut found = blocks(file, PENDING_REMOVES);
    let is_tail = |at: &usize| {
        !at.is_multiple_of(UNIT_BYTES) && file[*at..].starts_with(b"EnsB") && file[*at + 6] == PENDING_REMOVES
    };
    found.extend(blocks(file, PAGE).into_iter().map(behind).filter(|at| *at < file.len()).filter(is_tail));
    found
}

/// Makes the checksums of a block right again; its header checksum before, and now.
fn seal(file: &mut [u8], at: usize) -> (u32, u32) {
    let (salt, payload_bytes) = (u32_at(file, 96), u32_at(file, at + 12) as usize);
    let payload = &file[at + HEADER_BYTES..][..payload_bytes.next_multiple_of(8)];
    let payload_crc = crc32c(0, payload);
    file[at + 72..at + 76].copy_from_slice(&payload_crc.to_le_bytes());
    let (before, now) = (u32_at(file, at + 76), crc32c(salt, &file[at..at + 76]));
    file[at + 76..at + 80].copy_from_slice(&now.to_le_bytes());
    (before, now)
}

/// Where the entries of a page or of pending removes begin.
fn entries(file: &[u8], block: usize) -> Vec<usize> {
    let (mut at, mut found) = (block + HEADER_BYTES, Vec::new());
    let end = at + u32_at(file, block + 12) as usize;
    while at < end {
        found.push(at);
        at += FRAME_BYTES + u32_at(file, at + 8) as usize;
    }
    found
}

/// A database whose first picture has versions beside its pages; its page file.
fn with_versions_beside_pages(folder: &Folder) -> PathBuf {
    for attempt in 0..50 {
        let data = folder.0.join("data");
        let _ = std::fs::remove_dir_all(&data);
        let tuning = Tuning {
            checkpoint_strategy: Some(Strategy::Pictures),
            checkpoint_page_bytes: 4096,
            checkpointers: Some(1),
            // The walk lasts longer than some epochs.
            checkpoint_bandwidth: Some(1 << 20),
            ..Tuning::default()
        };
        let builder = Database::builder(&data).durability(Durability::Relaxed).tuning(tuning);
        let db = builder.checkpoints(Schedule::on_demand()).open().expect("opens");
        let table = db.table::<u64, Vec<u8>>("rows").expect("a table");
        // Each by its own transaction, so that no two rows have one TID.
        for key in 0..1000 {
            db.run(|tx| tx.put(&table, &key, &vec![1; 300])).expect("commits");
        }
        let picture = db.checkpoint().expect("is asked for");
        let mut key = 0;
        while picture.outcome().is_none() {
            // Odd keys stay in their pages, however far the walk is behind.
            key = (key + 14) % 1000;
            db.run(|tx| tx.put(&table, &key, &vec![2; 300])).expect("commits");
            std::thread::yield_now();
        }
        let report = picture.wait().expect("is installed");
        let rows = db.run(|tx| Ok(tx.range(&table, ..).count())).expect("reads");
        assert_eq!(rows, 1000);
        db.close().expect("closes");
        let files = std::fs::read_dir(data.join("checkpoint0")).expect("a folder");
        let mut files = files.map(|file| file.expect("an entry").path());
        let is_of_pages = |file: &PathBuf| {
            file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pages-"))
        };
        let file = files.find(is_of_pages).expect("a page file");
        let bytes = std::fs::read(&file).expect("reads");
        if report.displaced > 0 && roots(&bytes).len() == 1 {
            return file;
        }
        eprintln!("attempt {attempt}: {report:?}");
    }
    panic!("no picture has a version beside its pages");
}

/// A version beside the pages becomes one of a row that a page has with another TID.
fn give_a_second_tid(data: &Path, file: &Path) {
    let mut bytes = std::fs::read(file).expect("reads");
    // The entry's TID, length, section, then the row's key length and key.
    let block = beside_pages(&bytes)[0];
    let beside = entries(&bytes, block)[0];
    let (section, tid) = (u32_at(&bytes, beside + FRAME_BYTES), bytes[beside..beside + 8].to_vec());
    let pages = blocks(&bytes, PAGE).into_iter().filter(|page| u32_at(&bytes, page + 32) == section);
    let mut rows = pages.flat_map(|page| entries(&bytes, page));
    let row = rows.find(|row| bytes[*row..row + 8] != tid).expect("a row of another time");
    drop(rows);
    let key = bytes[row + FRAME_BYTES..][..10].to_vec();
    assert_eq!(key[..2], [8, 0], "the length of a key");
    bytes[beside + FRAME_BYTES + 4..][..10].copy_from_slice(&key);
    let (before, now) = seal(&mut bytes, block);
    let root = roots(&bytes)[0];
    let payload = root + HEADER_BYTES..root + HEADER_BYTES + u32_at(&bytes, root + 12) as usize;
    let place = bytes[payload.clone()].windows(4).position(|found| found == before.to_le_bytes());
    let place = payload.start + place.expect("the root has its place");
    bytes[place..place + 4].copy_from_slice(&now.to_le_bytes());
    let (before, now) = seal(&mut bytes, root);
    std::fs::write(file, bytes).expect("writes");
    let manifest = std::fs::read_to_string(data.join("MANIFEST")).expect("reads");
    let (body, _) = manifest.rsplit_once("crc32c ").expect("a checksum");
    let body = body.replace(&format!("seal {before:08x}"), &format!("seal {now:08x}"));
    assert!(!manifest.starts_with(&body), "it names the root");
    let text = format!("{body}crc32c {:08x}\n", crc32c(0, body.as_bytes()));
    std::fs::write(data.join("MANIFEST"), text).expect("writes");
}

#[test]
fn n11_verify_inspect_and_a_backup_see_two_tids_of_one_row() {
    let folder = Folder::new("two-tids");
    let file = with_versions_beside_pages(&folder);
    let run = |line: &str| {
        let (output, stdout, stderr) = folder.run(env!("CARGO_BIN_EXE_ensile"), line);
        (output.status.code(), format!("{stdout}{stderr}"))
    };
    let (code, said) = run("verify data");
    assert_eq!(code, Some(0), "{said}");
    give_a_second_tid(&folder.0.join("data"), &file);
    for command in ["verify data", "inspect data"] {
        let (code, said) = run(command);
        assert_eq!(code, Some(1), "{command}: {said}");
        assert!(said.contains("another TID") && said.contains("pages-"), "{command}: {said}");
    }
    let (code, said) = run("backup data backup");
    assert!(code == Some(2) && said.contains("with another TID"), "{said}");
    let (code, said) = run("restore backup restored");
    assert!(code == Some(2) && said.contains("has not ended"), "{said}");
    assert!(Database::open(folder.0.join("data")).is_err(), "an open says so too");
}
