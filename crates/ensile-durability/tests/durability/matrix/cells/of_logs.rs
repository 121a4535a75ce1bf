//! Cells of log files: a test for each row of the table.

use Ending::{Ahead, Bare, Closed, FurtherAhead};
use Expected::{AnyError, ErrorIn, ErrorWithin, Is};

use super::*;

/// Endings that show D by something else than the damaged mark: another log's block, the hint, the seal of a clean
/// close.
const WITNESSES: [Ending; 3] = [Ending::Ahead, Ending::Hinted, Ending::Closed];

#[derive(Debug)]
enum Expected {
    Is(Verdict),
    /// An error that names this file, at any offset.
    ErrorIn(String),
    /// The same, at an offset of this place.
    ErrorWithin(Place),
    AnyError,
}

/// Damages the folder with each of these endings, and compares the verdicts.
fn check<const N: usize>(
    column: &str,
    endings: &[Ending],
    damages: impl Fn(&Cells) -> [(Change, Expected); N],
) {
    for ending in endings {
        let cells = Cells::build(*ending);
        for (at, (damage, expected)) in damages(&cells).into_iter().enumerate() {
            let verdict = cells.after(damage);
            let holds = match (&expected, &verdict) {
                (Is(expected), verdict) => verdict == expected,
                (ErrorIn(file), verdict) => is_error_in(verdict, file),
                (ErrorWithin(Place { file, from, end }), Verdict::Damaged { file: named, offset }) => {
                    named == file && (*from..*end).contains(offset)
                }
                (AnyError, verdict) => matches!(verdict, Verdict::Damaged { .. }),
                _ => false,
            };
            assert!(holds, "{column}, {ending:?}, damage {at}: {verdict:?}, and not {expected:?}");
        }
    }
}

/// A bit of the block's header, of its payload, and of its mark.
fn bits(place: &Place) -> [Change; 3] {
    [place.from + 20, place.from + 500, place.mark() + 20].map(|at| bit(place, at))
}

#[test]
fn a_bit() {
    check("below D", &[Bare], |Cells { below, .. }| {
        let [header, payload, mark] = bits(below);
        let block = || Is(error(&below.file, below.from));
        [(header, block()), (payload, block()), (mark, Is(error(&below.file, below.mark())))]
    });
    check("at D", &[Bare], |cells| bits(&cells.at).map(|bit| (bit, Is(Verdict::Earlier))));
    check("at D with a witness", &WITNESSES, |Cells { at, .. }| {
        [(bit(at, at.mark() + 20), Is(error(&at.file, at.mark())))]
    });
    check("above D", &[Ahead], |cells| bits(&cells.above[0]).map(|bit| (bit, Is(TOLD))));
    check("above D, and a later block shows that it was synced", &[FurtherAhead], |cells| {
        let above = &cells.above[0];
        [(bit(above, above.mark() + 20), Is(error(&above.file, above.mark())))]
    });
    check("void", &[Bare], |cells| bits(&cells.void).map(|bit| (bit, Is(WHOLE))));
}

/// One that reads as zeros.
#[test]
fn a_sector() {
    check("below D", &[Bare], |cells| [(sector(&cells.below), ErrorWithin(cells.below.clone()))]);
    check("at D", &[Bare], |cells| [(sector(&cells.at), Is(Verdict::Earlier))]);
    check("at D with a witness", &WITNESSES, |Cells { at, .. }| [(sector(at), ErrorIn(at.file.clone()))]);
    check("above D", &[Ahead], |cells| [(sector(&cells.above[0]), Is(TOLD))]);
    check("void", &[Bare], |cells| [(sector(&cells.void), Is(WHOLE))]);
}

#[test]
fn a_length() {
    check("below D", &[Bare], |Cells { below: Place { file, from, .. }, .. }| {
        [*from, from + 1, from + 500].map(|to| (cut(file, to), Is(error(file, *from))))
    });
    check("at D", &[Bare], |Cells { at, .. }| {
        let lengths = [at.from, at.from + 1, at.from + 500, at.mark(), at.end - 1];
        lengths.map(|to| (cut(&at.file, to), Is(Verdict::Earlier)))
    });
    check("at D with a witness", &WITNESSES, |Cells { at, .. }| {
        [at.from, at.from + 500, at.end - 1].map(|to| (cut(&at.file, to), ErrorIn(at.file.clone())))
    });
    check("above D", &[Ahead], |cells| {
        let Place { file, from, end } = &cells.above[0];
        [from + 1, from + 500, end - 1].map(|to| (cut(file, to), Is(TOLD)))
    });
    check("above D, and nothing is left of it", &[Ahead], |cells| {
        [(cut(&cells.above[0].file, cells.above[0].from), Is(WHOLE))]
    });
    check("void", &[Bare], |Cells { void, .. }| {
        [void.from, void.from + 500].map(|to| (cut(&void.file, to), Is(WHOLE)))
    });
}

#[test]
fn a_length_at_d_between_blocks_of_the_only_log_is_what_a_crash_before_the_write_leaves() {
    // The bytes of a file that was left open are the same either way, so nothing can tell.
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    let mut ends = Vec::new();
    for key in 0..2 {
        let tid = rig.commit_epoch(&mut worker, key, b"durable");
        assert!(rig.log.durable_epoch() >= tid.epoch());
        ends.push(rig.log.stats().bytes + OPENING_BYTES);
    }
    drop((worker, rig));
    disk.crash(1);
    cut("log0/log-1-0", ends[0])(&disk);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!(rig.rows.keys().collect::<Vec<_>>(), [&0]);
    assert_eq!((rig.report.torn_tails.len(), rig.report.ignored_entries), (0, 0));
}

#[test]
fn a_missing_file() {
    check("below D", &[Bare], |cells| {
        // A log's first file, though the next one is there; a whole log; one of a generation that is closed.
        let [first, second] = [0, 1].map(|number| cells.file(1, 2, number));
        let whole = [first.clone(), second];
        let whole: Change = Box::new(move |disk| whole.iter().for_each(|file| disk.lose(file)));
        let named = || Is(error("log1/log-2-0", 0));
        [(lost(&first), named()), (whole, named()), (lost(&cells.void.file), AnyError)]
    });
    check("at D", &[Bare], |cells| [(lost(&cells.at.file), Is(Verdict::Earlier))]);
    check("at D with a witness: the file before", &WITNESSES, |cells| {
        [(lost(&cells.at.file), ErrorIn(cells.file(1, 2, 0)))]
    });
    check("above D", &[FurtherAhead], |cells| [(lost(&cells.above[1].file), Is(TOLD))]);
    check("void", &[Bare], |cells| {
        let is_last = |name: &&String| name.starts_with("log0/log-1-") && !name.contains("-to-");
        let files = cells.folder.disk.files();
        let last = files.iter().find(is_last).expect("the file that was begun last");
        let used_to = cells.bytes(last).iter().rposition(|byte| *byte != 0);
        assert!(used_to.is_some_and(|at| (at as u64) < OPENING_BYTES), "{used_to:?}");
        [(lost(last), Is(WHOLE))]
    });
}

/// Exchanged or copied.
#[test]
fn a_file_of_another_log() {
    check("below D", &[Bare], |cells| {
        let [one, two] = [0, 1].map(|log| cells.file(log, 2, 0));
        let (first, second) = (cells.bytes(&one), cells.bytes(&two));
        let (to_two, to_one) = (replaced(&two, first.clone()), replaced(&one, second));
        let exchanged: Change = Box::new(move |disk| (to_two(disk), to_one(disk)).0);
        [(replaced(&two, first), Is(error(&two, 0))), (exchanged, ErrorIn(one))]
    });
    let other = |cells: &Cells| replaced(&cells.at.file, cells.bytes(&cells.file(0, 2, 1)));
    check("at D: the file before was closed", &[Bare], |cells| {
        [(other(cells), Is(error(&cells.at.file, 0)))]
    });
    check("at D with a witness", &WITNESSES, |cells| [(other(cells), ErrorIn(cells.file(1, 2, 0)))]);
    check("above D: the file before was closed", &[FurtherAhead], |cells| {
        let file = &cells.above[1].file;
        [(replaced(file, cells.bytes(&cells.file(1, 2, 1))), Is(error(file, 0)))]
    });
}

#[test]
fn an_emptied_file() {
    let first = |cells: &Cells| cells.file(1, 2, 0);
    check("below D", &[Bare], |cells| [(cut(&first(cells), 0), Is(error(&first(cells), 0)))]);
    check("at D: the file before was closed", &[Bare, Closed], |cells| [(cut(&cells.at.file, 0), AnyError)]);
    check("above D: the file before was closed", &[FurtherAhead], |cells| {
        [(cut(&cells.above[1].file, 0), Is(error(&cells.above[1].file, 0)))]
    });
}

/// A file of the same log at another place.
#[test]
fn a_file_copied_over() {
    check("one below D, and the one at D", &[Bare], |cells| {
        let (first, at) = (cells.file(1, 2, 0), &cells.at.file);
        let copies = [(&first, at), (at, &first)];
        copies.map(|(to, from)| (replaced(to, cells.bytes(from)), ErrorIn(first.clone())))
    });
    check("one above D", &[FurtherAhead], |cells| {
        let before = cells.file(0, 2, 1);
        [(replaced(&cells.above[1].file, cells.bytes(&before)), ErrorIn(before))]
    });
}

/// The other name that this file could have.
fn second_name(file: &str) -> String {
    file.split_once("-to-").map_or_else(|| format!("{file}-to-3"), |(open, _)| open.to_owned())
}

/// A file's place, and the ending that has one.
type Column = (&'static str, Ending, fn(&Cells) -> &Place);

const COLUMNS: [Column; 4] = [
    ("below D", Bare, |cells| &cells.below),
    ("at D", Bare, |cells| &cells.at),
    ("above D", FurtherAhead, |cells| &cells.above[1]),
    ("void", Bare, |cells| &cells.void),
];

#[test]
fn a_second_name() {
    for (column, ending, place) in COLUMNS {
        let cells = Cells::build(ending);
        let file = &place(&cells).file;
        let verdict = cells.after(replaced(&second_name(file), cells.bytes(file)));
        let is_named = is_error_in(&verdict, file) || is_error_in(&verdict, &second_name(file));
        assert!(is_named, "{column}: {verdict:?}");
    }
}

/// Under the next number.
#[test]
fn a_second_copy() {
    check("at D", &[Bare], |Cells { at, folder, .. }| {
        [(replaced("log1/log-2-2", folder.disk.bytes(&at.file)), ErrorIn(at.file.clone()))]
    });
}

/// An older copy.
#[test]
fn a_stale_file() {
    check("below D", &[Bare], |cells| {
        let file = cells.file(1, 2, 0);
        [(replaced(&file, cells.stale(1, 2, 0)), ErrorIn(file))]
    });
    let stale = |cells: &Cells| replaced(&cells.at.file, cells.stale(1, 2, 1));
    check("at D: told by the other log's entries", &[Bare], |cells| [(stale(cells), Is(Verdict::Earlier))]);
    check("at D with a witness", &WITNESSES, |cells| [(stale(cells), ErrorIn(cells.at.file.clone()))]);
    check("above D", &[Ahead], |cells| [(replaced(&cells.above[0].file, cells.stale(0, 2, 1)), Is(WHOLE))]);
}

/// Of another database, or of another time.
#[test]
fn a_foreign_file() {
    for (column, ending, place) in COLUMNS {
        let (cells, other) = (Cells::build(ending), Cells::build(ending));
        let file = &place(&cells).file;
        assert_eq!(cells.after(replaced(file, other.bytes(file))), error(file, 0), "{column}");
    }
}
