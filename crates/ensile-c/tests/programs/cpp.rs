//! Versions in C; the C++ wrapper's edges: exceptions in call-backs, handles, iterators, checkpoints of several blocks.

use std::process::Command;

use crate::build::{compile, empty_folder, package, run};
use crate::lives::runs;

#[test]
fn exceptions_of_call_backs_become_errors_and_nothing_leaks() {
    runs("wrapper.cpp");
}

#[test]
fn a_program_in_c_up_casts_what_its_older_version_has_written() {
    let folder = empty_folder("versions");
    let program = folder.join("versions");
    compile(&package().join("tests/programs/versions.c"), &program, ["-Wpedantic"]);
    let version = |which: &str| run(Command::new(&program).arg(folder.join("numbers")).arg(which));
    assert_eq!(version("0"), "5");
    let refused = version("none");
    assert!(refused.starts_with("not_understood: ") && refused.contains("load_older is NULL"), "{refused}");
    assert_eq!(version("1"), "50");
    std::fs::remove_dir_all(&folder).expect("is removed");
}
