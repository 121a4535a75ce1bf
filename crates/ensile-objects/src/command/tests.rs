//! The exit code of a check of several folders.

use std::process::ExitCode;

use ensile_durability::DurabilityError;
use ensile_durability::examination::Examination;

use super::{UNTOLD, WRONG, check_folders};
use crate::collection::check::FolderCheck;

fn checked(poisoned: &[&str]) -> FolderCheck {
    FolderCheck {
        examination: Examination::default(),
        objects: 1,
        poisoned: poisoned.iter().map(|&object| object.to_owned()).collect(),
        difference: None,
        not_replayed: None,
        not_written: None,
    }
}

#[test]
fn the_exit_code_is_that_of_the_worst_folder_in_whichever_order() {
    let code_of = |folders: &[&str]| {
        let code = check_folders(folders.iter().map(Into::into), |folder| match folder.to_str() {
            Some("whole") => Ok(checked(&[])),
            Some("poisoned") => Ok(checked(&["a"])),
            _ => Err(DurabilityError::Cancelled.into()),
        });
        format!("{code:?}")
    };
    for (folders, expected) in [
        (&["whole", "whole"][..], 0),
        (&["whole", "poisoned"], WRONG),
        (&["poisoned", "whole"], WRONG),
        (&["unread", "poisoned", "whole"], UNTOLD),
        (&["poisoned", "unread"], UNTOLD),
        (&[], UNTOLD),
    ] {
        assert_eq!(code_of(folders), format!("{:?}", ExitCode::from(expected)), "{folders:?}");
    }
}
