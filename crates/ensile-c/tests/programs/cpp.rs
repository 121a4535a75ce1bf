//! The C++ wrapper's edges: exceptions in call-backs, handles, iterators, checkpoints of several blocks.

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
