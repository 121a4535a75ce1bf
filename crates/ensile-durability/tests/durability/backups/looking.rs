//! A source that goes on while a copier looks at it (N20): its log rolls and its hint moves, between the lease and the
//! reading. Something else happens once on the disk here, as another process would do it.

use super::files::{Remembered, outlast_the_lease};
use super::*;

#[test]
fn n20_a_hint_that_moves_while_the_source_is_looked_at_asks_for_nothing_that_the_lease_did_not_open() {
    let disk = SimDisk::new();
    let database = Remembered::open(&disk, 1, 4096);
    let durable = database.life.rig.log.durable_epoch();
    let database = Arc::new(Mutex::new(database));
    let goes_on = Arc::clone(&database);
    let data = disk.at("data");
    let beside = move || {
        let mut database = goes_on.lock().expect("no panic");
        let before = data.bytes("HINT");
        // Files that the lease does not have, and a hint of what is in them.
        (0..20).for_each(|key| database.put(key, vec![2; 900]));
        database.life.rig.clock.advance(Duration::from_secs(2));
        database.life.rig.log.hint_step();
        assert_ne!(data.bytes("HINT"), before, "D has moved");
    };
    // Before the first sync of the main folder's names, and no later one.
    let beside = Mutex::new(Some(beside));
    disk.at("data").watch_folder_syncs(Some(Arc::new(move |folder: &str| {
        let beside = beside.lock().expect("no panic").take_if(|_| folder.is_empty());
        if let Some(beside) = beside {
            beside();
        }
    })));
    let copy = backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins");
    let mut database = database.lock().expect("no panic");
    outlast_the_lease(&mut database, 3);
    assert!(database.life.rig.log.stats().leases_overrun > 0, "they are gone before they are read");
    let report = run(copy).expect("is made");
    database.assert_is_a_state(&disk, (&report, durable));
}
