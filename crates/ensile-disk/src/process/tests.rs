//! A process knows itself, and a child that is forked from it is another one.

use super::{Process, ProcessMarks};
use crate::test_folder::TestFolder;
use crate::{Disk, DiskError, RealDisk};

/// Forks, runs `child` in the child, and says whether it held there. The child does nothing else: other threads' locks
/// may be held in it for ever.
fn holds_in_a_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `child`, which takes no lock that another thread of this process may hold, and ends.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        let held = child();
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(i32::from(!held)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child above, and writes to the local variable.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn words(marks: &ProcessMarks) -> [u64; 2] {
    [marks.get(0), marks.get(1)]
}

#[test]
fn a_process_is_itself_until_a_simulator_says_that_it_was_forked() {
    let process = Process::current();
    assert!(process.is_this() && process.clone().is_this() && Process::current().is_this());
    let simulated = Process::new_simulated();
    let clone = simulated.clone();
    let marks = simulated.marks();
    marks.set(1, 7);
    simulated.set_forked(true);
    assert!(!simulated.is_this() && !clone.is_this() && process.is_this());
    marks.set(0, 5);
    assert_eq!(words(&marks), [0, 0]);
    simulated.set_forked(false);
    assert!(simulated.is_this() && clone.is_this());
    assert_eq!(words(&marks)[1], 7);
}

#[test]
fn a_child_is_another_process_and_so_is_its_child() {
    let process = Process::current();
    let marks = process.marks();
    marks.set(0, 3);
    marks.set(1, u64::MAX);
    let child = || {
        let own = Process::current();
        let own_marks = own.marks();
        own_marks.set(0, 9);
        let grandchild =
            || !own.is_this() && !process.is_this() && Process::current().is_this() && own_marks.get(0) == 0;
        !process.is_this() && own.is_this() && words(&marks) == [0, 0] && own_marks.get(0) == 9 && {
            // SAFETY: as for the child.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(i32::from(!grandchild())) };
            }
            let mut status = 0;
            // SAFETY: waits for the child above, and writes to the local variable.
            pid > 0 && unsafe { libc::waitpid(pid, &raw mut status, 0) } == pid && status == 0
        }
    };
    assert!(holds_in_a_child(child));
    assert!(process.is_this() && words(&marks) == [3, u64::MAX]);
}

#[test]
fn a_child_changes_nothing_and_gives_back_no_lock_of_its_parent() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let file = disk.create("a").expect("create");
    file.write_at(b"parent", 0).expect("write");
    let locks = [disk.lock("LOCK").expect("free"), disk.lock_folder("").expect("free")];
    let mut given = Some(locks);
    let child = || {
        // The child's copies of the locks are dropped; the parent's stand.
        drop(given.take());
        let forked = |result: Result<(), DiskError>| result.is_err_and(|error| error.is_forked());
        forked(file.write_at(b"child", 0))
            && forked(file.set_len(0))
            && forked(file.preallocate(100))
            && forked(file.sync_data())
            && forked(file.sync_all())
            && forked(disk.create("b").map(drop))
            && forked(disk.open("a").map(drop))
            && forked(disk.rename("a", "b"))
            && forked(disk.remove("a"))
            && forked(disk.create_folder("sub"))
            && forked(disk.link_folder("sub", std::path::Path::new("/")))
            && forked(disk.sync_folder(""))
            && forked(disk.lock("LOCK").map(drop))
            && forked(disk.lock_to_read("LOCK").map(drop))
            && forked(disk.lock_folder("").map(drop))
            && forked(disk.lock_folder_to_read("").map(drop))
            && RealDisk::open_existing(folder.path()).is_ok_and(|anew| {
                matches!(anew.lock("LOCK"), Err(DiskError::InUse { .. }))
                    && matches!(anew.lock_folder(""), Err(DiskError::InUse { .. }))
            })
    };
    let held = holds_in_a_child(child);
    let anew = RealDisk::open_existing(folder.path()).expect("there");
    assert!(matches!(anew.lock("LOCK"), Err(DiskError::InUse { .. })), "the parent has it still");
    assert_eq!(disk.list("").expect("listed"), ["LOCK", "a"]);
    assert_eq!(file.len().expect("length"), 6);
    assert!(held, "in the child");
}

/// A child that was forked for another program has a copy of every handle until it executes that.
#[test]
fn a_lock_that_is_given_back_is_free_though_a_child_has_its_handle() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("a temporary folder");
    let other = RealDisk::open(folder.path()).expect("the same folder");
    let locks = [disk.lock("LOCK").expect("free"), disk.lock_folder("").expect("free")];
    // SAFETY: the child takes no lock of this process, and waits to be ended.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        }
    }
    drop(locks);
    let free = [other.lock("LOCK").is_ok(), other.lock_folder("").is_ok()];
    let mut status = 0;
    // SAFETY: ends the child above, which this process waits for next.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    // SAFETY: waits for the child above, and writes to the local variable.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(free, [true; 2], "the file's lock, and the folder's");
}

#[test]
fn marks_that_were_dropped_are_forgotten_and_their_page_is_given_back() {
    let simulated = Process::new_simulated();
    let owner = simulated.simulated.clone().expect("a simulated process");
    let marks: Vec<_> = (0..5).map(|_| simulated.marks()).collect();
    assert_eq!(owner.marks.lock().len(), 5);
    drop(marks);
    let _next = simulated.marks();
    assert_eq!(owner.marks.lock().len(), 1, "the others are gone");
}

#[cfg(target_os = "linux")]
#[test]
fn marks_of_the_process_itself_give_their_page_back() {
    const MARKS: u64 = 1000;
    // Kibibytes of all that the kernel clears at a fork.
    let cleared = || {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("is read");
        let (mut size, mut all) = (0, 0);
        for line in maps.lines() {
            if let Some(kib) = line.strip_prefix("Size:") {
                size = kib.trim().trim_end_matches(" kB").parse().expect("a number");
            } else if line.starts_with("VmFlags:") && line.split(' ').any(|flag| flag == "wf") {
                all += size;
            }
        }
        all
    };
    let process = Process::current();
    let held: Vec<_> = (0..MARKS).map(|_| process.marks()).collect();
    let most: u64 = cleared();
    held.iter().zip(0..).for_each(|(marks, number)| marks.set(0, number));
    drop(held);
    // Other tests of this process have a few.
    assert!(cleared() < most / 2, "{} KiB of {most}", cleared());
}
