//! Versions in C; the C++ wrapper's edges: exceptions in call-backs, handles, iterators, checkpoints of several blocks.

use std::process::Command;

use crate::build::{compile, empty_folder, package, run};

#[test]
fn exceptions_of_call_backs_become_errors_and_nothing_leaks() {
    let folder = empty_folder("wrapper");
    let program = folder.join("wrapper");
    let source = package().join("tests/programs/wrapper.cpp");
    compile(&source, &program, ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wpedantic"]);
    let said = run(Command::new(&program).arg(folder.join("items")).env("ASAN_OPTIONS", "detect_leaks=1"));
    assert_eq!(said, "all as it must be");
    std::fs::remove_dir_all(&folder).expect("is removed");
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
