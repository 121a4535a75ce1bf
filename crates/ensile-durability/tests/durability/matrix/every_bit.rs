//! Folders of more than 256 KiB are damaged everywhere: every bit, every length, every file exchanged for another one.
//! Those with pictures have as much in use in their page files alone. What comes of it is an error that names the file,
//! or exactly the state at D, or an earlier one that is told of.
//!
//! `ENSILE_DAMAGE=all`, as `ci/damage.sh` sets it, does all of it; otherwise a sample is drawn.
//! `ENSILE_FOLDERS=pictures` takes the folders whose names have that word.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::folder::{Folder, Verdict};
use crate::prelude::*;

/// One of this many damages is in the sample.
const SAMPLE: usize = 4_001;
const THREADS: usize = 2;
/// A folder is at least so large, and so is what a picture has in its page files.
const BYTES_MIN: usize = 256 << 10;

fn is_wanted(state: &str) -> bool {
    std::env::var("ENSILE_FOLDERS").map_or(true, |word| state.contains(&word))
}

/// Runs damage `0..count` over a folder, and fails with the first ones that are wrong.
fn run(what: &str, folder: &Folder, count: usize, damage: impl Fn(&SimDisk, usize) -> String + Sync) {
    let (stride, next) = (if damages_all() { 1 } else { SAMPLE.min(count / 40).max(1) }, AtomicUsize::new(0));
    let one_thread = || {
        let (mut verdicts, mut wrong) = (BTreeMap::new(), Vec::new());
        loop {
            // Relaxed: hands out numbers.
            let at = next.fetch_add(stride, Ordering::Relaxed);
            if at >= count {
                return (verdicts, wrong);
            }
            let damaged = folder.copy();
            let told = damage(&damaged, at);
            match folder.judge(&damaged) {
                Ok(Verdict::Damaged { .. }) => *verdicts.entry("an error").or_insert(0) += 1,
                Ok(Verdict::Whole { .. }) => *verdicts.entry("the state at D").or_insert(0) += 1,
                Ok(Verdict::Earlier) => *verdicts.entry("an earlier state, told").or_insert(0) += 1,
                Err(error) => wrong.push(format!("{told}: {error}")),
            }
        }
    };
    let results: Vec<(BTreeMap<_, usize>, Vec<_>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one_thread)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let (mut all, mut wrong) = (BTreeMap::new(), Vec::new());
    for (verdicts, more) in results {
        verdicts.into_iter().for_each(|(name, count)| *all.entry(name).or_insert(0) += count);
        wrong.extend(more);
    }
    println!("{what}: {all:?}, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{what}: {} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}

/// All files with their bytes, and where each begins when they stand one behind the other.
fn laid_out(folder: &Folder) -> (Vec<(usize, String, Vec<u8>)>, usize) {
    let (mut files, mut whole) = (Vec::new(), 0);
    for name in folder.disk.files() {
        let bytes = folder.disk.bytes(&name);
        files.push((whole, name, bytes.clone()));
        whole += bytes.len();
    }
    (files, whole)
}

fn folders() -> impl Iterator<Item = (&'static str, Folder)> {
    let others = [
        ("left open", Folder::build(7, 2_400, false)),
        ("closed cleanly", Folder::build(7, 2_400, true)),
        ("ranges, in the midst of a turn", Folder::with_ranges(7, 2_400, false)),
    ];
    others.into_iter().chain(with_pictures()).filter(|(state, _)| is_wanted(state))
}

fn with_pictures() -> [(&'static str, Folder); 3] {
    [
        ("pictures, left open", Folder::with_large_pictures(7, 2, false)),
        ("pictures, closed cleanly", Folder::with_large_pictures(7, 2, true)),
        ("pictures, no log", Folder::with_large_pictures(7, 0, false)),
    ]
}

/// Logs of one file each, where nothing but its own bytes tells a file from a stranger's.
fn small_folders() -> [(&'static str, Folder); 4] {
    let folder = |closed| Folder::build(7, 40, closed);
    let pictures = Folder::with_pictures(7, 40, false);
    [
        ("small, left open", folder(false)),
        ("small, closed cleanly", folder(true)),
        ("small pictures, left open", pictures),
        ("small ranges, in the midst of a turn", Folder::with_ranges(7, 40, false)),
    ]
}

#[test]
fn pictures_have_256_kib_of_several_increments_to_damage() {
    for (state, folder) in with_pictures() {
        let bytes = folder.picture_bytes();
        println!("{state}: {bytes} bytes of pages, directory and versions beside pages");
        assert!(bytes >= BYTES_MIN as u64, "{state}: {bytes}");
    }
}

#[test]
fn every_bit_flipped() {
    for (state, folder) in folders() {
        let (files, whole) = laid_out(&folder);
        println!("{whole} bytes in {} files", files.len());
        assert!(whole >= BYTES_MIN);
        run(&format!("flips, {state}"), &folder, whole * 8, |disk, number| {
            let (at, bit) = (number / 8, number % 8);
            let (from, name, _) =
                files.iter().rfind(|(from, ..)| *from <= at).expect("the first begins at 0");
            disk.flip(name, (at - from) as u64, 1 << bit);
            format!("bit {bit} of byte {} of {name}", at - from)
        });
    }
}

#[test]
fn every_length() {
    for (state, folder) in folders() {
        let (files, whole) = laid_out(&folder);
        run(&format!("lengths, {state}"), &folder, whole, |disk, at| {
            let (from, name, bytes) =
                files.iter().rfind(|(from, ..)| *from <= at).expect("the first begins at 0");
            disk.put(name, bytes[..at - from].to_vec());
            format!("{name} cut to {} bytes", at - from)
        });
    }
}

/// A cut between two blocks takes no entry that another log shows: the marks of the other one tell of it.
#[test]
fn every_end_of_a_block_of_a_log_beside_pictures_is_told() {
    let folder = Folder::with_large_pictures(7, 2, false);
    let mut earlier = 0;
    for name in folder.disk.files().into_iter().filter(|name| name.contains("/log-")) {
        let bytes = folder.disk.bytes(&name);
        // Blocks begin and end at multiples of 8 bytes.
        for at in (0..bytes.len()).step_by(8) {
            let damaged = folder.copy();
            damaged.put(&name, bytes[..at].to_vec());
            let verdict =
                folder.judge(&damaged).unwrap_or_else(|why| panic!("{name} cut to {at} bytes: {why}"));
            earlier += u64::from(verdict == Verdict::Earlier);
        }
    }
    assert!(earlier > 0, "some cuts leave an earlier state");
}

#[test]
fn every_sector_zeroed() {
    for (state, folder) in folders() {
        let (files, whole) = laid_out(&folder);
        run(&format!("zeroed sectors, {state}"), &folder, whole.div_ceil(64), |disk, number| {
            let at = number * 64;
            let (from, name, bytes) =
                files.iter().rfind(|(from, ..)| *from <= at).expect("the first begins at 0");
            let mut bytes = bytes.clone();
            let end = (at - from + 512).min(bytes.len());
            bytes[at - from..end].fill(0);
            disk.put(name, bytes);
            format!("{name} zeroed from {} to {end}", at - from)
        });
    }
}

/// Files that may stand where another one should: of this folder, from earlier on, of another database.
fn strangers(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let other = folder.another(8);
    let disks = folder.earlier.iter().chain(&other.earlier).chain([&folder.disk, &other.disk]);
    disks.flat_map(|disk| disk.files().into_iter().map(|name| (name.clone(), disk.bytes(&name)))).collect()
}

#[test]
fn every_file_missing_exchanged_stale_or_foreign() {
    for (state, folder) in folders().chain(small_folders()) {
        let (files, strangers) = (laid_out(&folder).0, strangers(&folder));
        run(&format!("missing files, {state}"), &folder, files.len(), |disk, at| {
            disk.lose(&files[at].1);
            format!("{} missing", files[at].1)
        });
        run(&format!("strange files, {state}"), &folder, files.len() * strangers.len(), |disk, number| {
            let ((_, name, _), (from, bytes)) =
                (&files[number / strangers.len()], &strangers[number % strangers.len()]);
            disk.put(name, bytes.clone());
            format!("{name} is file {} of all, {from}", number % strangers.len())
        });
        run(&format!("exchanged files, {state}"), &folder, files.len() * files.len(), |disk, number| {
            let ((_, one, bytes), (_, two, others)) =
                (&files[number % files.len()], &files[number / files.len()]);
            disk.put(one, others.clone());
            disk.put(two, bytes.clone());
            format!("{one} and {two} exchanged")
        });
    }
}
