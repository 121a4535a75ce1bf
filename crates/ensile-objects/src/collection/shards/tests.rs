//! The epoch that an absence without a cell rests on.

use ensile_base::{Epoch, Tid};

use super::{CellPlace, KeyHasher, Shards};

#[test]
fn r1_an_absence_rests_on_the_largest_epoch_of_all_that_went_from_its_shard() {
    let shards: Shards<u64, ()> = Shards::new(KeyHasher::new(true));
    let shard = shards.hash(&0).shard();
    let keys: Vec<u64> = (0..).filter(|key| shards.hash(key).shard() == shard).take(3).collect();
    let cells: Vec<_> = keys.iter().map(|key| shards.find_or_make(key, shards.hash(key))).collect();
    for ((number, cell), epoch) in (0..).zip(cells).zip([5, 9, 7]) {
        let mut state = cell.lock();
        state.tid = Tid::first_of(Epoch::new(epoch));
        shards.remove(CellPlace { shard, number }, &mut state);
    }
    assert_eq!(shards.removal_epoch(shard), Epoch::new(9));
    assert_eq!(shards.find(&keys[2], shards.hash(&keys[2])).err(), Some(Epoch::new(9)));
}
