//! What a backup's manifest says: of which database it is one, its older pictures, and that it was opened.

use super::{
    assert_every_change_is_seen, checkpoint, main, manifest, page_picture, picture, ranges, with_checksum,
    without_checkpoint,
};
use crate::files::manifest::Manifest;
use crate::files::manifest::backup_states::{FilesState, KeptState};
use crate::files::manifest::creation_marker::UnfinishedCopy;
use crate::files::manifest::generation::{Generation, LogSpan};
use crate::files::manifest::installed_checkpoint::{InstalledCheckpoint, PictureCheckpoint};
use crate::files::manifest::origin::MadeFrom;
use crate::files::manifest::text_form::Unusable;
use crate::files::names::SegmentName;
use crate::identity::Identity;
use crate::samples::{generation, identity, other_identity};
use ensile_base::Epoch;

pub(super) fn backup_of() -> MadeFrom {
    MadeFrom::Backup { of: identity() }
}

pub(super) fn restored() -> MadeFrom {
    MadeFrom::Restored { epoch: Epoch::new(63) }
}

pub(super) fn unfinished() -> [UnfinishedCopy; 2] {
    [UnfinishedCopy::Backup { of: identity() }, UnfinishedCopy::Restore { of: identity() }]
}

/// A backup that has these older pictures beside its newest one, of epoch 63.
fn backup(kept: Vec<PictureCheckpoint>) -> Manifest {
    let generations = vec![Generation { logs: 0, ..generation(3, 61, None) }];
    let checkpoint = Some(picture(7, 3, 63));
    let parent = Some(identity());
    let identity = other_identity();
    let made_from = Some(backup_of());
    let kept = kept.into_iter().map(KeptState::Picture).collect();
    Manifest { identity, parent, made_from, checkpoint, kept, ..without_checkpoint(generations) }
}

#[test]
fn a_backup_and_what_began_as_one_come_back_in_a_manifest_of_the_newest_format() {
    for from in [Some(backup_of()), Some(restored())] {
        for manifest in [backup(Vec::new()), manifest(), Manifest::new(identity(), main())] {
            let manifest = Manifest { made_from: from, ..manifest };
            let text = manifest.to_string();
            assert!(text.starts_with("ensile manifest 4\n"), "{text}");
            assert_eq!(Manifest::parse(&text), Ok(manifest));
            let older = with_checksum(&text.replacen("manifest 4", "manifest 3", 1));
            assert!(Manifest::parse(&older).is_err(), "a program that knows no backup does not read it");
        }
    }
}

#[test]
fn n24_an_unfinished_copy_is_said_by_a_manifest_that_is_creating_and_by_no_other() {
    let store = other_identity();
    let begun = unfinished().into_iter().chain([UnfinishedCopy::TakeOver { from: store }]);
    for copy in begun {
        let creating = Manifest::new(Identity::draw(), main()).for_copy(copy);
        assert_eq!(creating.unfinished_copy(), Some(copy));
        let text = creating.to_string();
        // Of a take-over the line `ships to` says it.
        let title = if creating.unfinished.is_some() { "ensile manifest 5\n" } else { "ensile manifest 4\n" };
        assert!(text.starts_with(title), "an older program makes no database of it: {text}");
        assert_eq!(Manifest::parse(&text), Ok(creating.clone()));
    }
    for copy in unfinished() {
        let ended = Manifest { unfinished: Some(copy), ..manifest() };
        assert_eq!(
            Manifest::parse(&ended.to_string()),
            Err(Unusable::Damaged("its lines contradict each other"))
        );
        let text = Manifest::new(identity(), main()).for_copy(copy).to_string();
        let line = format!("{copy}\n");
        for (why, changed) in [
            ("it stands twice", text.replacen(&line, &line.repeat(2), 1)),
            ("it names no database", text.replacen(&line, "unfinished backup of\n", 1)),
            ("it is of another word", text.replacen(&line, "unfinished copy of 5b1e\n", 1)),
            ("it stands last", text.replacen(&line, "", 1).replacen("crc32c", &format!("{line}crc32c"), 1)),
        ] {
            assert_ne!(changed, text, "{why}");
            let found = Manifest::parse(&with_checksum(&changed));
            assert_eq!(found, Err(Unusable::Damaged("a line cannot be read")), "{why}");
        }
    }
    // As an open begins a folder, and as a version did that did not say it.
    assert_eq!(Manifest::new(identity(), main()).unfinished_copy(), None);
}

#[test]
fn the_line_of_a_backup_stands_once_and_behind_what_is_reserved() {
    let text = backup(Vec::new()).to_string();
    let line = format!("{}\n", backup_of());
    assert_eq!(text.lines().nth(3), Some(line.trim_end()), "{text}");
    let without = text.replacen(&line, "", 1);
    for (why, changed) in [
        ("it stands twice", text.replacen(&line, &line.repeat(2), 1)),
        ("it says both", text.replacen(&line, &format!("{line}restored epoch 63\n"), 1)),
        ("it stands before what is reserved", without.replacen("reserved", &format!("{line}reserved"), 1)),
        ("it stands behind a folder", without.replacen("picture", &format!("{line}picture"), 1)),
        ("it names no database", text.replacen(&line, "backup of\n", 1)),
        ("it names none that can be one", text.replacen(&line, "backup of 5b1e\n", 1)),
        ("it is of another word", text.replacen(&line, "backup from 5b1e\n", 1)),
        ("it is restored from no epoch", text.replacen(&line, "restored epoch none\n", 1)),
        ("it is restored without an epoch", text.replacen(&line, "restored epoch\n", 1)),
    ] {
        assert_ne!(changed, text, "{why}");
        let found = Manifest::parse(&with_checksum(&changed));
        assert_eq!(found, Err(Unusable::Damaged("a line cannot be read")), "{why}");
    }
}

#[test]
fn a5_a_backup_becomes_a_database_once_and_a_state_that_goes_back_to_its_picture_ends_there() {
    assert_eq!(backup_of().after_recovery(Epoch::new(63)), restored());
    assert_eq!(restored().after_recovery(Epoch::new(90)), restored());
    let generations = vec![generation(3, 61, Some(66)), generation(4, 70, None)];
    let state = FilesState { checkpoint: Some(picture(7, 3, 62)), generations };
    let back = state.back_to(Epoch::new(62)).expect("the state has the picture's epoch");
    assert_eq!((back.epoch(), back.generations.len()), (Epoch::new(62), 1));
}

#[test]
fn n16_older_pictures_are_of_a_backup_each_older_than_the_one_before_it_and_in_its_page_file() {
    let kept = || vec![page_picture(6, 3, 62), page_picture(4, 2, 50), page_picture(3, 2, 49)];
    let good = backup(kept());
    let text = good.to_string();
    assert_eq!(Manifest::parse(&text), Ok(good.clone()));
    let epochs = |line: &str| line.starts_with("picture ").then(|| line.split(' ').nth(5).map(str::to_owned));
    let epochs: Vec<_> = text.lines().filter_map(epochs).flatten().collect();
    assert_eq!(epochs, ["63", "62", "50", "49"], "the newest first: {text}");
    let one = |kept| backup(vec![kept]);
    let older = || page_picture(6, 3, 62);
    let other_salt = || {
        let mut files = older().files;
        files[1].salt = crate::samples::salt("00000001");
        files
    };
    for (why, manifest) in [
        ("of a database that is none", Manifest { made_from: None, ..good.clone() }),
        ("of a backup that was opened", { Manifest { made_from: Some(restored()), ..good.clone() } }),
        ("beside a checkpoint that is none", {
            let generations = vec![generation(3, 61, None)];
            Manifest { checkpoint: Some(checkpoint(7, 3, 62, 64)), generations, ..good }
        }),
        ("newer than the installed one", one(page_picture(6, 3, 64))),
        ("of the installed one's epoch", one(page_picture(6, 3, 63))),
        ("out of order", backup(vec![page_picture(4, 2, 50), page_picture(6, 3, 62)])),
        ("listed twice", backup(vec![older(), older()])),
        ("of a later generation", one(page_picture(6, 4, 62))),
        ("of another database", one(PictureCheckpoint { database: identity(), ..older() })),
        ("in a file of another salt", one(PictureCheckpoint { files: other_salt(), ..older() })),
        ("in another file", one(PictureCheckpoint { files: older().files[1..].into(), ..older() })),
        ("without an epoch", one(page_picture(6, 3, 0))),
        ("without a number", one(page_picture(0, 3, 62))),
    ] {
        let found = Manifest::parse(&manifest.to_string());
        assert!(matches!(found, Err(Unusable::Damaged(_))), "an older picture is {why}: {found:?}");
    }
}

#[test]
fn a_checkpoint_that_is_no_picture_stands_behind_none_and_every_changed_byte_is_seen() {
    let text = backup(vec![page_picture(6, 3, 62)]).to_string();
    let older = format!("{}\n", picture(6, 3, 62));
    for other in [checkpoint(6, 3, 61, 62).to_string(), InstalledCheckpoint::Cycling(ranges()).to_string()] {
        let mixed = with_checksum(&text.replacen(&older, &format!("{other}\n"), 1));
        assert_ne!(mixed, text);
        assert_eq!(Manifest::parse(&mixed), Err(Unusable::Damaged("a line cannot be read")), "{mixed}");
    }
    assert_every_change_is_seen(&backup(vec![page_picture(6, 3, 62)]).to_string());
}

/// An older state of files, as of the end of epoch 63.
pub(super) fn state_of_files() -> KeptState {
    let span = |first, last, bytes| LogSpan { first, last, bytes };
    let spans = vec![span(0, 5, 4096), span(3, 7, 128)];
    let closed = Generation { spans, ..generation(3, 61, Some(63)) };
    let open = Generation { logs: 0, ..generation(4, 64, None) };
    KeptState::Files(FilesState {
        checkpoint: Some(checkpoint(7, 3, 61, 62)),
        generations: vec![closed, open],
    })
}

/// The states of a backup of files: the newest, and older ones of both kinds.
fn backup_of_files() -> Manifest {
    let span = |first, last, bytes| LogSpan { first, last, bytes };
    let closed = |number, first, durable, spans: &[LogSpan]| Generation {
        spans: spans.to_vec(),
        ..generation(number, first, Some(durable))
    };
    let without_log = |number, first| Generation { logs: 0, ..generation(number, first, None) };
    let newest = vec![
        closed(3, 61, 66, &[]),
        closed(5, 70, 73, &[span(1, 2, 4096), span(0, 1, 80)]),
        without_log(6, 74),
    ];
    let older = FilesState {
        checkpoint: Some(checkpoint(7, 3, 62, 64)),
        generations: vec![closed(3, 61, 65, &[span(3, 9, 128), span(0, 0, 208)]), without_log(4, 66)],
    };
    let oldest = FilesState { checkpoint: None, generations: vec![without_log(1, 2)] };
    let kept =
        vec![KeptState::Files(older), KeptState::Picture(page_picture(6, 2, 50)), KeptState::Files(oldest)];
    let identity = other_identity();
    let (parent, made_from) = (Some(crate::samples::identity()), Some(backup_of()));
    let checkpoint = Some(checkpoint(8, 3, 62, 65));
    Manifest { identity, parent, made_from, checkpoint, kept, ..without_checkpoint(newest) }
}

#[test]
fn n21_states_of_files_and_the_ends_of_their_logs_come_back() {
    let good = backup_of_files();
    let text = good.to_string();
    assert_eq!(Manifest::parse(&text), Ok(good.clone()), "{text}");
    assert!(text.contains(" durable 73 files 1-2:4096,0-1:80\n"), "{text}");
    assert!(
        text.contains("\nkept epoch 65\ncheckpoint 7 ") && text.contains("\nkept epoch 1\ngeneration 1 "),
        "{text}"
    );
    let epochs: Vec<_> = good.kept.iter().map(|kept| kept.epoch().number()).collect();
    assert_eq!(epochs, [65, 50, 1]);
    // One that was opened still says where its logs ended.
    let opened = Manifest { kept: Vec::new(), made_from: Some(restored()), ..good.clone() };
    assert_eq!(Manifest::parse(&opened.to_string()), Ok(opened));
    let name = |generation, logger, number| SegmentName { generation, logger, number };
    let bytes = |name| good.log_bytes(name);
    assert_eq!(
        (bytes(name(5, 0, 1)), bytes(name(5, 0, 2)), bytes(name(5, 0, 3))),
        (Some(u64::MAX), Some(4096), None)
    );
    assert_eq!((bytes(name(5, 1, 1)), bytes(name(5, 1, 2)), bytes(name(5, 2, 0))), (Some(80), None, None));
    assert_eq!(
        (bytes(name(3, 0, 99)), bytes(name(4, 0, 0))),
        (Some(u64::MAX), None),
        "it was closed when it was copied"
    );
    assert!(
        good.is_outside(name(5, 0, 3)) && good.is_outside(name(5, 0, 0)) && !good.is_outside(name(3, 0, 99))
    );
}

#[test]
fn n21_states_that_contradict_each_other_are_seen() {
    let good = backup_of_files();
    let change = |change: &dyn Fn(&mut Manifest)| {
        let mut changed = good.clone();
        change(&mut changed);
        changed
    };
    let kept = |at: usize, to: &dyn Fn(&mut FilesState)| {
        change(&|manifest| match &mut manifest.kept[at] {
            KeptState::Files(state) => to(state),
            KeptState::Picture(_) => panic!("it is of files"),
        })
    };
    for (why, manifest) in [
        (
            "an open log has an end",
            change(&|manifest| {
                manifest.kept.clear();
                manifest.generations.truncate(2);
                manifest.generations[1].durable = None;
            }),
        ),
        ("a log has none", change(&|manifest| _ = manifest.generations[1].spans.pop())),
        (
            "a state is as new as the newest",
            kept(0, &|state| {
                state.generations[0].durable = Some(Epoch::new(72));
                state.generations[1].first = Epoch::new(74);
            }),
        ),
        ("an older state stands before a newer one", change(&|manifest| manifest.kept.swap(0, 2))),
        ("a state has a log that is open", kept(0, &|state| state.generations[1].logs = 2)),
        (
            "a state's checkpoint needs more of the log",
            kept(0, &|state| {
                state.checkpoint = Some(checkpoint(7, 3, 62, 66));
            }),
        ),
        ("a state has no generation", kept(0, &|state| state.generations.clear())),
        ("it was opened", change(&|manifest| manifest.made_from = Some(restored()))),
        (
            "its own log is open",
            change(&|manifest| {
                let open = generation(6, 74, None);
                *manifest.generations.last_mut().expect("one") = open;
            }),
        ),
    ] {
        let found = Manifest::parse(&manifest.to_string());
        assert!(matches!(found, Err(Unusable::Damaged(_))), "{why}: {found:?}");
    }
    let text = good.to_string();
    for (why, changed) in [
        ("another epoch", text.replacen("kept epoch 65", "kept epoch 64", 1)),
        ("files without bytes", text.replacen("1-2:4096", "1-2", 1)),
        ("a log without its files", text.replacen(" files 1-2:4096,0-1:80", " files ", 1)),
        ("a span that ends before it begins", text.replacen("1-2:4096", "3-2:4096", 1)),
        ("a picture behind", text.replacen("\nkept epoch 1\n", "\nkept epoch 1\npicture 1\n", 1)),
    ] {
        assert_ne!(changed, text, "{why}");
        assert!(Manifest::parse(&with_checksum(&changed)).is_err(), "{why}");
    }
    assert_every_change_is_seen(&text);
}
