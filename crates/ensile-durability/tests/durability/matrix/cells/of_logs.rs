//! Cells of log files. The headings are the rows of the table.

use super::*;
use crate::matrix::folder::Verdict;

/// Endings that show D by something else than the damaged mark: another log's block, the hint, the seal of a clean
/// close.
const WITNESSES: [Ending; 3] = [Ending::Ahead, Ending::Hinted, Ending::Closed];

// ---- a bit

#[test]
fn a_bit_below_d_is_an_error_that_names_file_and_offset() {
    let cells = Cells::build(Ending::Bare);
    let Place { file, from, .. } = &cells.below;
    // In the block's header, and in its payload.
    for at in [from + 20, from + 500] {
        assert_eq!(cells.after(bit(&cells.below, at)), error(file, *from));
    }
    let mark = cells.below.mark();
    assert_eq!(cells.after(bit(&cells.below, mark + 20)), error(file, mark));
}

#[test]
fn a_bit_at_d_is_a_torn_tail_told_and_the_epoch_before() {
    let cells = Cells::build(Ending::Bare);
    for at in [cells.at.from + 20, cells.at.from + 500, cells.at.mark() + 20] {
        assert_eq!(cells.after(bit(&cells.at, at)), Verdict::Earlier, "at {at} of {:?}", cells.at);
    }
}

#[test]
fn a_bit_at_d_with_a_witness_is_an_error_that_names_file_and_offset() {
    for ending in WITNESSES {
        let cells = Cells::build(ending);
        let mark = cells.at.mark();
        assert_eq!(cells.after(bit(&cells.at, mark + 20)), error(&cells.at.file, mark), "{ending:?}");
    }
}

#[test]
fn a_bit_above_d_is_a_torn_tail_told() {
    let cells = Cells::build(Ending::Ahead);
    let above = &cells.above[0];
    for at in [above.from + 20, above.from + 500, above.mark() + 20] {
        assert_eq!(cells.after(bit(above, at)), TOLD, "at {at} of {above:?}");
    }
}

#[test]
fn a_bit_above_d_that_a_later_block_shows_to_be_synced_is_an_error() {
    let cells = Cells::build(Ending::FurtherAhead);
    let above = &cells.above[0];
    assert_eq!(cells.after(bit(above, above.mark() + 20)), error(&above.file, above.mark()));
}

#[test]
fn a_bit_that_is_void_is_ignored() {
    let cells = Cells::build(Ending::Bare);
    for at in [cells.void.from + 20, cells.void.from + 500, cells.void.mark() + 20] {
        assert_eq!(cells.after(bit(&cells.void, at)), WHOLE, "at {at} of {:?}", cells.void);
    }
}

// ---- a sector that reads as zeros

#[test]
fn a_sector_below_d_is_an_error_that_names_file_and_offset() {
    let cells = Cells::build(Ending::Bare);
    let Verdict::Damaged { file, offset } = cells.after(sector(&cells.below)) else { panic!("an error") };
    assert!(file == cells.below.file && (cells.below.from..cells.below.end).contains(&offset), "{offset}");
}

#[test]
fn a_sector_at_d_is_a_torn_tail_told_and_the_epoch_before() {
    let cells = Cells::build(Ending::Bare);
    assert_eq!(cells.after(sector(&cells.at)), Verdict::Earlier);
}

#[test]
fn a_sector_at_d_with_a_witness_is_an_error_that_names_the_file() {
    for ending in WITNESSES {
        let cells = Cells::build(ending);
        assert!(is_error_in(&cells.after(sector(&cells.at)), &cells.at.file), "{ending:?}");
    }
}

#[test]
fn a_sector_above_d_is_a_torn_tail_told() {
    let cells = Cells::build(Ending::Ahead);
    assert_eq!(cells.after(sector(&cells.above[0])), TOLD);
}

#[test]
fn a_sector_that_is_void_is_ignored() {
    let cells = Cells::build(Ending::Bare);
    assert_eq!(cells.after(sector(&cells.void)), WHOLE);
}

// ---- a length

#[test]
fn a_length_below_d_is_an_error_that_names_file_and_offset() {
    let cells = Cells::build(Ending::Bare);
    let Place { file, from, .. } = &cells.below;
    for to in [*from, from + 1, from + 500] {
        assert_eq!(cells.after(cut(file, to)), error(file, *from), "cut to {to}");
    }
}

#[test]
fn a_length_at_d_is_a_torn_tail_told_and_the_epoch_before() {
    let cells = Cells::build(Ending::Bare);
    for to in [cells.at.from, cells.at.from + 1, cells.at.from + 500, cells.at.mark(), cells.at.end - 1] {
        assert_eq!(cells.after(cut(&cells.at.file, to)), Verdict::Earlier, "cut to {to} of {:?}", cells.at);
    }
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
fn a_length_at_d_with_a_witness_is_an_error_that_names_the_file() {
    for ending in WITNESSES {
        let cells = Cells::build(ending);
        for to in [cells.at.from, cells.at.from + 500, cells.at.end - 1] {
            let verdict = cells.after(cut(&cells.at.file, to));
            assert!(is_error_in(&verdict, &cells.at.file), "{ending:?} cut to {to}: {verdict:?}");
        }
    }
}

#[test]
fn a_length_above_d_is_a_torn_tail_told() {
    let cells = Cells::build(Ending::Ahead);
    let above = &cells.above[0];
    for to in [above.from + 1, above.from + 500, above.end - 1] {
        assert_eq!(cells.after(cut(&above.file, to)), TOLD, "cut to {to}");
    }
    assert_eq!(cells.after(cut(&above.file, above.from)), WHOLE, "nothing is left of it");
}

#[test]
fn a_length_that_is_void_is_ignored() {
    let cells = Cells::build(Ending::Bare);
    for to in [cells.void.from, cells.void.from + 500] {
        assert_eq!(cells.after(cut(&cells.void.file, to)), WHOLE, "cut to {to}");
    }
}

// ---- a file missing

#[test]
fn a_missing_file_below_d_is_an_error_that_names_it() {
    let cells = Cells::build(Ending::Bare);
    // A log's first file, though the next one is there; a whole log; one of a generation that is closed.
    assert_eq!(cells.after(|disk| disk.lose(&cells.file(1, 2, 0))), error("log1/log-2-0", 0));
    let whole = cells.after(|disk| (0..2).for_each(|number| disk.lose(&cells.file(1, 2, number))));
    assert_eq!(whole, error("log1/log-2-0", 0));
    let void = &cells.void.file;
    assert!(matches!(cells.after(|disk| disk.lose(void)), Verdict::Damaged { .. }));
}

#[test]
fn a_missing_file_at_d_is_told_and_the_epoch_before() {
    let cells = Cells::build(Ending::Bare);
    assert_eq!(cells.after(|disk| disk.lose(&cells.at.file)), Verdict::Earlier);
}

#[test]
fn a_missing_file_at_d_with_a_witness_is_an_error_that_names_the_file_before() {
    for ending in WITNESSES {
        let cells = Cells::build(ending);
        let verdict = cells.after(|disk| disk.lose(&cells.at.file));
        assert!(is_error_in(&verdict, &cells.file(1, 2, 0)), "{ending:?}: {verdict:?}");
    }
}

#[test]
fn a_missing_file_above_d_is_told() {
    let cells = Cells::build(Ending::FurtherAhead);
    assert_eq!(cells.after(|disk| disk.lose(&cells.above[1].file)), TOLD);
}

#[test]
fn a_missing_file_that_is_void_is_ignored() {
    let cells = Cells::build(Ending::Bare);
    let is_last = |name: &&String| name.starts_with("log0/log-1-") && !name.contains("-to-");
    let files = cells.folder.disk.files();
    let last = files.iter().find(is_last).expect("the file that was begun last");
    let used_to = cells.bytes(last).iter().rposition(|byte| *byte != 0);
    assert!(used_to.is_some_and(|at| (at as u64) < OPENING_BYTES), "{used_to:?}");
    assert_eq!(cells.after(|disk| disk.lose(last)), WHOLE);
}

// ---- a file of another log, exchanged or copied

#[test]
fn a_file_of_another_log_below_d_is_an_error() {
    let cells = Cells::build(Ending::Bare);
    let (one, two) = (cells.file(0, 2, 0), cells.file(1, 2, 0));
    assert_eq!(cells.after(|disk| disk.put(&two, disk.bytes(&one))), error(&two, 0));
    let exchanged = cells.after(|disk| {
        let bytes = disk.bytes(&two);
        disk.put(&two, disk.bytes(&one));
        disk.put(&one, bytes);
    });
    assert!(is_error_in(&exchanged, &one), "{exchanged:?}");
}

#[test]
fn a_file_of_another_log_at_d_is_an_error_as_the_one_before_was_closed() {
    let cells = Cells::build(Ending::Bare);
    let other = cells.bytes(&cells.file(0, 2, 1));
    assert_eq!(cells.after(|disk| disk.put(&cells.at.file, other)), error(&cells.at.file, 0));
}

#[test]
fn a_file_of_another_log_at_d_with_a_witness_is_an_error() {
    for ending in WITNESSES {
        let cells = Cells::build(ending);
        let other = cells.bytes(&cells.file(0, 2, 1));
        let verdict = cells.after(|disk| disk.put(&cells.at.file, other));
        assert!(is_error_in(&verdict, &cells.file(1, 2, 0)), "{ending:?}: {verdict:?}");
    }
}

#[test]
fn a_file_of_another_log_above_d_is_an_error_as_the_one_before_was_closed() {
    let cells = Cells::build(Ending::FurtherAhead);
    let other = cells.bytes(&cells.file(1, 2, 1));
    let verdict = cells.after(|disk| disk.put(&cells.above[1].file, other));
    assert_eq!(verdict, error(&cells.above[1].file, 0));
}

// ---- an emptied file

#[test]
fn an_emptied_file_below_d_is_an_error() {
    let cells = Cells::build(Ending::Bare);
    let first = cells.file(1, 2, 0);
    assert_eq!(cells.after(cut(&first, 0)), error(&first, 0));
}

#[test]
fn an_emptied_file_at_d_is_an_error_as_the_one_before_was_closed() {
    for ending in [Ending::Bare, Ending::Closed] {
        let cells = Cells::build(ending);
        let verdict = cells.after(cut(&cells.at.file, 0));
        assert!(matches!(verdict, Verdict::Damaged { .. }), "{ending:?}: {verdict:?}");
    }
}

#[test]
fn an_emptied_file_above_d_is_an_error_as_the_one_before_was_closed() {
    let cells = Cells::build(Ending::FurtherAhead);
    assert_eq!(cells.after(cut(&cells.above[1].file, 0)), error(&cells.above[1].file, 0));
}

// ---- a file of the same log at another place

#[test]
fn a_file_copied_over_one_below_d_is_an_error() {
    let cells = Cells::build(Ending::Bare);
    let first = cells.file(1, 2, 0);
    let verdict = cells.after(|disk| disk.put(&first, disk.bytes(&cells.at.file)));
    assert!(is_error_in(&verdict, &first), "{verdict:?}");
}

#[test]
fn a_file_copied_over_the_one_at_d_is_an_error() {
    let cells = Cells::build(Ending::Bare);
    let first = cells.file(1, 2, 0);
    let verdict = cells.after(|disk| disk.put(&cells.at.file, disk.bytes(&first)));
    assert!(is_error_in(&verdict, &first), "{verdict:?}");
}

#[test]
fn a_file_copied_over_one_above_d_is_an_error() {
    let cells = Cells::build(Ending::FurtherAhead);
    let before = cells.file(0, 2, 1);
    let verdict = cells.after(|disk| disk.put(&cells.above[1].file, disk.bytes(&before)));
    assert!(is_error_in(&verdict, &before), "{verdict:?}");
}

// ---- the same file under a second legal name

/// The other name that this file could have.
fn second_name(file: &str) -> String {
    file.split_once("-to-").map_or_else(|| format!("{file}-to-3"), |(open, _)| open.to_owned())
}

fn assert_second_name_is_an_error(ending: Ending, file: impl FnOnce(&Cells) -> String) {
    let cells = Cells::build(ending);
    let file = file(&cells);
    let verdict = cells.after(|disk| disk.put(&second_name(&file), disk.bytes(&file)));
    let names = [file.clone(), second_name(&file)];
    assert!(names.iter().any(|name| is_error_in(&verdict, name)), "{verdict:?}");
}

#[test]
fn a_second_name_of_a_file_below_d_is_an_error() {
    assert_second_name_is_an_error(Ending::Bare, |cells| cells.below.file.clone());
}

#[test]
fn a_second_name_of_the_file_at_d_is_an_error() {
    assert_second_name_is_an_error(Ending::Bare, |cells| cells.at.file.clone());
}

#[test]
fn a_second_name_of_a_file_above_d_is_an_error() {
    assert_second_name_is_an_error(Ending::FurtherAhead, |cells| cells.above[1].file.clone());
}

#[test]
fn a_second_name_of_a_file_that_ends_void_is_an_error() {
    assert_second_name_is_an_error(Ending::Bare, |cells| cells.void.file.clone());
}

#[test]
fn a_second_copy_under_the_next_number_is_an_error() {
    let cells = Cells::build(Ending::Bare);
    let verdict = cells.after(|disk| disk.put("log1/log-2-2", disk.bytes(&cells.at.file)));
    assert!(is_error_in(&verdict, &cells.at.file), "{verdict:?}");
}

// ---- an older copy

#[test]
fn a_stale_file_below_d_is_an_error_that_names_it() {
    let cells = Cells::build(Ending::Bare);
    let (file, stale) = (cells.file(1, 2, 0), cells.stale(1, 2, 0));
    let verdict = cells.after(|disk| disk.put(&file, stale));
    assert!(is_error_in(&verdict, &file), "{verdict:?}");
}

#[test]
fn a_stale_file_at_d_is_told_by_the_other_logs_entries_and_the_epoch_before() {
    let cells = Cells::build(Ending::Bare);
    let stale = cells.stale(1, 2, 1);
    assert_eq!(cells.after(|disk| disk.put(&cells.at.file, stale)), Verdict::Earlier);
}

#[test]
fn a_stale_file_at_d_with_a_witness_is_an_error_that_names_it() {
    for ending in WITNESSES {
        let cells = Cells::build(ending);
        let stale = cells.stale(1, 2, 1);
        let verdict = cells.after(|disk| disk.put(&cells.at.file, stale));
        assert!(is_error_in(&verdict, &cells.at.file), "{ending:?}: {verdict:?}");
    }
}

#[test]
fn a_stale_file_above_d_is_the_state_at_d() {
    let cells = Cells::build(Ending::Ahead);
    let above = &cells.above[0];
    let stale = cells.stale(0, 2, 1);
    assert_eq!(cells.after(|disk| disk.put(&above.file, stale)), WHOLE);
}

// ---- a file of another database, or of another time

fn assert_foreign_is_an_error(ending: Ending, file: impl Fn(&Cells) -> String) {
    let (cells, other) = (Cells::build(ending), Cells::build(ending));
    let file = file(&cells);
    let foreign = other.bytes(&file);
    assert_eq!(cells.after(|disk| disk.put(&file, foreign)), error(&file, 0));
}

#[test]
fn a_foreign_file_below_d_is_an_error_that_names_it() {
    assert_foreign_is_an_error(Ending::Bare, |cells| cells.below.file.clone());
}

#[test]
fn a_foreign_file_at_d_is_an_error_that_names_it() {
    assert_foreign_is_an_error(Ending::Bare, |cells| cells.at.file.clone());
}

#[test]
fn a_foreign_file_above_d_is_an_error_that_names_it() {
    assert_foreign_is_an_error(Ending::FurtherAhead, |cells| cells.above[1].file.clone());
}

#[test]
fn a_foreign_file_in_a_closed_generation_is_an_error_that_names_it() {
    assert_foreign_is_an_error(Ending::Bare, |cells| cells.void.file.clone());
}
