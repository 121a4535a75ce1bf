//! A lease of a running database, on the machine's own files (I3).

use ensile::folder;
use ensile::prelude::*;

use super::{builder, made, put};
use crate::common::Folder;

#[test]
fn i3_all_files_of_a_lease_stay_and_are_read_while_a_checkpoint_is_installed() -> Result<()> {
    let root = Folder::new();
    let data = root.path().join("data");
    made(builder(&data), "first", true)?;
    let db = builder(&data).open()?;
    put(&db, 0..10, "second")?;
    let lease = folder::lease(&data)?;
    let parts: Vec<&str> =
        lease.files().iter().map(|file| file.name()).filter(|name| name.contains("ckpt-")).collect();
    assert!(
        !parts.is_empty() && lease.files().iter().any(|file| file.name().starts_with("log0/")),
        "{lease:?}"
    );
    db.checkpoint()?.wait()?;
    assert!(lease.has_all_names()?);
    for file in lease.files() {
        let mut bytes = vec![0; file.bytes()? as usize];
        assert_eq!(file.read_at(&mut bytes, 0)?, bytes.len(), "{}", file.name());
    }
    assert!(parts.iter().all(|part| data.join(part).exists()));
    let parts: Vec<_> = parts.iter().map(|part| data.join(part)).collect();
    drop(lease);
    // The next checkpoint removes them, if the checkpointer has not yet.
    db.checkpoint()?.wait()?;
    assert!(!parts.iter().any(|part| part.exists()), "{parts:?}");
    db.close()
}
