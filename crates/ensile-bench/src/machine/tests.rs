//! What a run says of its machine, and which folders it refuses.

use std::path::Path;

use super::{
    Machine, field_after, fit, is_in_memory, processor_nanos, processor_nanos_of, resident_bytes, selected,
    without_folders,
};

#[test]
fn a_command_is_told_without_the_folders_of_who_gave_it() {
    let told = |words: &str| without_folders("ensile-bench", words.split(' ').map(str::to_owned));
    assert_eq!(told("silo fig4 --data here --rounds 3 --out=there"), "ensile-bench silo fig4 --rounds 3");
    assert_eq!(told("silo --tmpfs /dev/shm/x --pin"), "ensile-bench silo --pin");
}

#[test]
fn fields_and_choices_are_found_in_their_lines() {
    assert_eq!(field_after("a : 1\nmodel name\t: Fast 3000\n", "model name"), Some("Fast 3000"));
    assert_eq!(field_after("a : 1\n", "b"), None);
    assert_eq!(selected("always [madvise] never"), "madvise");
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    assert!(fit(100, 190, 19_000).is_ok());
    let words = fit(99_999_999_999, 190, 190_001_234).expect_err("19 TB").to_string();
    assert!(words.contains("99,999,999,999 records") && words.ends_with("--records 1000006"), "{words}");
    assert!(fit(u64::MAX, 2, u64::MAX).is_err(), "nothing overflows");
}

#[test]
fn proc_is_no_memory_file_system_and_tmpfs_is_one_before_its_folder_is_made() {
    assert!(!is_in_memory(Path::new("/proc/self")).expect("it is there"));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut tmpfs = mounts.lines().filter(|line| line.contains(" /dev/shm tmpfs "));
    if tmpfs.next().is_some() {
        assert!(is_in_memory(Path::new("/dev/shm/not/yet/made")).expect("it is there"));
    }
}

#[test]
fn the_machines_line_says_which_build_was_measured() {
    let machine = Machine::look();
    let commit = machine.ensile_commit.trim_end_matches("+changes");
    let is_commit = commit.len() >= 7 && commit.chars().all(|digit| digit.is_ascii_hexdigit());
    assert!(is_commit || commit == "unknown", "{commit}");
    assert!(machine.line().ends_with(&format!(" ({})", machine.ensile_commit)), "{}", machine.line());
}

#[test]
fn this_machine_has_cores_and_this_process_has_memory() {
    let machine = Machine::look();
    assert!(machine.cores > 0 && machine.memory_bytes > 0);
    assert!(resident_bytes() > 100_000);
}

#[test]
fn processor_time_grows_with_work_and_is_told_of_threads_by_name() {
    const NAME: &str = "busy-for-a-test";
    std::thread::scope(|scope| {
        let work = || {
            let before = processor_nanos();
            // Nothing has to be as fast as that: it goes on until the time was taken.
            while processor_nanos() < before + 50_000_000 || processor_nanos_of(NAME) == 0 {
                std::hint::black_box((0..10_000_u64).map(std::hint::black_box).sum::<u64>());
            }
        };
        let busy = std::thread::Builder::new().name(NAME.to_owned()).spawn_scoped(scope, work);
        busy.expect("a thread begins").join().expect("it ends");
    });
    assert_eq!(processor_nanos_of("no such thread"), 0);
}
