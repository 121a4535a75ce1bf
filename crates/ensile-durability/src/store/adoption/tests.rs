//! Which marks of folders an adoption knows.

use super::*;
use crate::near_duplicates;

#[test]
fn i1_a_mark_that_is_in_all_but_one_part_the_databases_or_its_parents_is_not_known() {
    let number = |inode| FolderId { inode, born_nanos: None };
    let (own, parent) = (Identity::draw(), Identity::draw());
    let manifest = Manifest { parent: Some(parent), ..Manifest::new(own, number(2)) };
    for database in [own, parent] {
        let mark = Mark { database, name: "log1".to_owned(), main: number(2) };
        assert!(is_known(&manifest, &mark, "log1"));
        for other in ["log", "log11", "log2", "checkpoint1"] {
            assert!(!is_known(&manifest, &mark, other), "{other}");
        }
        for database in near_duplicates::identities(database) {
            assert!(!is_known(&manifest, &Mark { database, ..mark.clone() }, "log1"), "{database}");
        }
        let copied = Mark { main: number(3), ..mark };
        assert!(is_known(&manifest, &copied, "log1"), "a copy has another main folder");
    }
}
