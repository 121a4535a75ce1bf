//! The reserve of a database: on each of its devices, and gone from all of them once it is given up.

use std::path::Path;

use ensile_sim::SimDisk;

use super::*;

/// A database of two logs, the second of which is on a device of its own.
fn linked() -> (SimDisk, Reserve) {
    let disk = SimDisk::new();
    disk.create_folder(&log_folder(0)).expect("is made");
    disk.set_device("/fast", None);
    disk.link_folder(&log_folder(1), Path::new("/fast")).expect("links");
    let reserve = Reserve::new(&(Arc::new(disk.clone()) as Arc<dyn Disk>), 2).expect("is looked at");
    (disk, reserve)
}

fn there(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.ends_with(RESERVE)).collect()
}

#[test]
fn a_reserve_that_is_given_up_is_gone_from_every_device() {
    let (disk, reserve) = linked();
    let before = (disk.used_bytes(), disk.at("/fast").used_bytes());
    for _ in 0..2 {
        reserve.make().expect("there is space");
        assert!(reserve.is_kept());
        assert_eq!(there(&disk), [RESERVE.to_owned(), format!("{}/{RESERVE}", log_folder(1))]);
        for folder in ["", "/fast"] {
            assert_eq!(disk.at(folder).used_bytes(), RESERVE_BYTES, "on its device");
        }
        assert!(reserve.give_up().expect("is removed"));
        assert!(!reserve.is_kept());
        assert_eq!((disk.used_bytes(), disk.at("/fast").used_bytes()), before);
    }
    assert!(!reserve.give_up().expect("is looked for"), "there was none of it");
}

#[test]
fn a_reserve_takes_a_part_of_what_is_free_and_none_where_little_is() {
    let (disk, reserve) = linked();
    for (free, bytes) in [
        (RESERVE_BYTES * FREE_SHARE + 2, RESERVE_BYTES),
        (RESERVE_BYTES * FREE_SHARE - 2, RESERVE_BYTES - 1),
        (BYTES_MIN * FREE_SHARE, BYTES_MIN),
        (BYTES_MIN * FREE_SHARE - 2, 0),
    ] {
        disk.set_device("/fast", Some(free));
        reserve.make().expect("a disk without space is no failure");
        assert_eq!(disk.at("/fast").used_bytes(), bytes, "of {free} bytes");
        assert_eq!(reserve.is_kept(), bytes > 0);
        reserve.give_up().expect("is removed");
    }
}

#[test]
fn a_reserve_that_a_kill_has_left_too_short_is_made_anew() {
    let (disk, reserve) = linked();
    drop(disk.create(RESERVE).expect("is made"));
    reserve.make().expect("there is space");
    assert_eq!((reserve.is_kept(), disk.used_bytes()), (true, RESERVE_BYTES));
}
