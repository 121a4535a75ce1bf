//! Names of files: one spelling each.

use super::*;

#[test]
fn names_are_spelled_one_way() {
    let name = SegmentName { generation: 12, logger: 3, number: 45 };
    assert_eq!(SegmentFile::parse(3, "log-12-45"), Some(SegmentFile::from(name)));
    let closed = SegmentFile { to: Some(Epoch::new(678)), ..SegmentFile::from(name) };
    assert_eq!(SegmentFile::parse(3, "log-12-45-to-678"), Some(closed));
    let merged = SegmentFile { is_merged: true, ..SegmentFile::from(name) };
    assert_eq!(SegmentFile::parse(3, "log-12-45-merged"), Some(merged));
    assert_eq!(closed.to_string(), "log3/log-12-45-to-678");
    let most = format!("log-1-1-to-{}", Epoch::MAX.number());
    let others = [
        "log-12",
        "log-12-45-6",
        "log-12-45-to",
        "log-12-45-to-6-7",
        "log-12-45-to-6-merged",
        "log-012-45",
        "log-12-x",
        "log--1",
    ];
    for other in others.into_iter().chain(["MANIFEST", "log-12-45-to-06", &most]) {
        assert_eq!(SegmentFile::parse(3, other), None, "{other}");
    }
    let name = PageFileName { folder: 2, number: 11 };
    assert_eq!(name.to_string(), format!("{}/pages-11", checkpoint_folder(2)));
    assert_eq!(PageFileName::parse(2, "pages-11"), Some(name));
    for other in ["pages-", "pages-011", "pages-+11", "pages--1", "pages-1-1", "ckpt-7-11", "pages"] {
        assert_eq!(PageFileName::parse(2, other), None, "{other}");
    }
    let name = BufferName { generation: 7, logger: 2, number: 11 };
    assert_eq!(name.to_string(), "log2/buffer-7-11");
    assert_eq!(BufferName::parse(2, "buffer-7-11"), Some(name));
    let list = BufferListName { generation: 7, logger: 2 };
    assert_eq!(list.to_string(), "log2/buffers-7");
    assert_eq!(BufferListName::parse(2, "buffers-7"), Some(list));
    assert!(
        ["buffers-07", "buffers-7-1", "buffer-7"]
            .iter()
            .all(|other| BufferListName::parse(2, other).is_none())
    );
    for other in ["buffer-7", "buffer-07-11", "buffer-7-11-1", "buffer-7-+11", "buffer--1-1", "log-7-11"] {
        assert_eq!(BufferName::parse(2, other), None, "{other}");
    }
    let part = PartName { checkpoint: 7, checkpointer: 2, file: 11 };
    assert_eq!(part.to_string(), format!("{}/ckpt-7-11", checkpoint_folder(2)));
    assert_eq!(PartName::parse(2, "ckpt-7-11"), Some(part));
    for other in ["ckpt-7", "ckpt-07-11", "ckpt-7-11-1", "ckpt-7-+11", "ckpt--1-1", "log-0-1-1"] {
        assert_eq!(PartName::parse(2, other), None, "{other}");
    }
}
