//! Header and library say the same: numbers, functions and their types, call-backs, layouts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::mem::offset_of;
use std::process::Command;

use ensile_c::{
    ABI_VERSION, Code, ErrorText, ForeignApplication, ForeignBytes, ForeignCheckpoint, ForeignReceipt,
    ForeignRecovery, ForeignStats, NO_OBJECT,
};

use crate::build::{empty_folder, need_tools, package, run};

/// What C calls the types.
const TYPES: [(&str, &str); 19] = [
    ("u64", "uint64_t"),
    ("u32", "uint32_t"),
    ("i32", "int32_t"),
    ("usize", "size_t"),
    ("bool", "bool"),
    ("c_char", "char"),
    ("c_void", "void"),
    ("ErrorText", "ensile_error"),
    ("SettingsHandle", "ensile_settings"),
    ("ObjectsHandle", "ensile_objects"),
    ("ForeignApplication", "ensile_application"),
    ("ForeignBytes", "ensile_bytes"),
    ("ForeignReceipt", "ensile_receipt"),
    ("ForeignMake", "ensile_make"),
    ("ForeignWriter", "ensile_writer"),
    ("ForeignCheckpoint", "ensile_checkpoint_report"),
    ("ForeignStats", "ensile_stats"),
    ("ForeignRecovery", "ensile_recovery"),
    ("()", "void"),
];

/// The header without comments and lines of the preprocessor, in one line.
fn header() -> String {
    let text = std::fs::read_to_string(package().join("include/ensile/objects.h")).expect("the header");
    let mut plain = String::new();
    for (at, part) in text.split("/*").enumerate() {
        plain.push_str(if at == 0 { part } else { part.split_once("*/").expect("a comment ends").1 });
    }
    let lines = plain.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// The library's sources.
fn sources() -> String {
    let files = std::fs::read_dir(package().join("src")).expect("sources");
    let paths = files.map(|file| file.expect("a file").path()).filter(|path| path.is_file());
    paths.map(|path| std::fs::read_to_string(path).expect("a source")).collect()
}

/// A type of C without blanks and its own names for numbers.
fn c_type(text: &str) -> String {
    let mut text = text.replace("ensile_code", "int32_t");
    for name in ["ensile_setting ", "ensile_folder ", "ensile_text ", "ensile_life "] {
        text = format!("{text} ").replace(name, "uint32_t ");
    }
    text.replace(' ', "")
}

/// The type of a parameter of C, whose name is its last word.
fn c_parameter(text: &str) -> String {
    let text = text.trim();
    c_type(text.trim_end_matches(|letter: char| letter.is_alphanumeric() || letter == '_'))
}

/// A type of Rust as C has it.
fn rust_type(text: &str) -> String {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix("*mut ") {
        return format!("{}*", rust_type(inner));
    }
    if let Some(inner) = text.strip_prefix("*const ") {
        return format!("const{}*", rust_type(inner));
    }
    let known = TYPES.iter().find(|(rust, _)| *rust == text);
    known.unwrap_or_else(|| panic!("a type that C does not have: {text}")).1.to_owned()
}

/// The functions that the header declares, and their types.
fn declared() -> BTreeMap<String, String> {
    let text = header();
    let mut functions = BTreeMap::new();
    for statement in text.split(';') {
        let Some((head, parameters)) = statement.trim().split_once('(') else { continue };
        let Some(name) = head.rsplit([' ', '*']).next().filter(|name| name.starts_with("ensile_")) else {
            continue;
        };
        let Some(parameters) = parameters.strip_suffix(')') else { continue };
        let list: Vec<String> = parameters.split(',').filter(|one| *one != "void").map(c_parameter).collect();
        let gives = c_type(head.strip_suffix(name).expect("its end"));
        functions.insert(name.to_owned(), format!("{gives}({})", list.join(",")));
    }
    functions
}

/// The functions that the library exports, and their types.
fn exported() -> BTreeMap<String, String> {
    let text = sources();
    let mut functions = BTreeMap::new();
    for function in text.split("#[unsafe(no_mangle)]\n").skip(1) {
        let (_, function) = function.split_once("extern \"C\" fn ").expect("a function of C");
        let (name, rest) = function.split_once('(').expect("parameters");
        let (parameters, rest) = rest.split_once(')').expect("the end of them");
        let (gives, _) = rest
            .trim_start()
            .strip_prefix("-> ")
            .expect("it gives something")
            .split_once('{')
            .expect("a body");
        let parameters = parameters.split(',').map(str::trim).filter(|one| !one.is_empty());
        let list: Vec<String> =
            parameters.map(|one| rust_type(one.split_once(": ").expect("name and type").1)).collect();
        functions.insert(name.to_owned(), format!("{}({})", rust_type(gives), list.join(",")));
    }
    functions
}

#[test]
fn every_function_is_declared_as_it_is_exported() {
    let (declared, exported) = (declared(), exported());
    assert!(exported.len() > 15, "{exported:?}");
    assert_eq!(declared, exported);
}

#[test]
fn every_call_back_has_the_parameters_that_the_library_gives() {
    let (header, sources) = (header(), sources());
    for (field, alias) in [
        ("load_one", "LoadOne"),
        ("replay_one", "ReplayOne"),
        ("load_older", "LoadOlder"),
        ("replay_older", "ReplayOlder"),
        ("checkpoint", "WriteCheckpoint"),
        ("next_object", "NextObject"),
        ("save_one", "SaveOne"),
    ] {
        let (_, rest) = header.split_once(&format!("int32_t (*{field})(")).expect("the header's call-back");
        let (parameters, _) = rest.split_once(')').expect("its end");
        let wanted: Vec<String> = parameters.split(',').map(c_parameter).collect();
        let (_, rest) = sources.split_once(&format!("type {alias} =")).expect("the library's type");
        let (_, rest) = rest.split_once("unsafe extern \"C\" fn(").expect("a function of C");
        let (parameters, rest) = rest.split_once(')').expect("its end");
        let given: Vec<String> = parameters.split(',').map(rust_type).collect();
        assert_eq!(wanted, given, "{field}");
        assert!(rest.starts_with(" -> i32;"), "{field} gives a number");
    }
    assert!(header.contains("typedef int32_t (*ensile_make)(void *argument);"));
    assert!(sources.contains("ForeignMake = Option<unsafe extern \"C\" fn(argument: *mut c_void) -> i32>;"));
}

#[test]
fn every_number_has_the_same_name() {
    let text = header();
    let mut declared = BTreeMap::new();
    for numbers in text.split("enum {").skip(1) {
        let (numbers, _) = numbers.split_once('}').expect("its end");
        for number in numbers.split(',') {
            let (name, value) = number.split_once('=').expect("a name and a number");
            declared.insert(name.trim().to_owned(), value.trim().to_owned());
        }
    }
    let mut known = BTreeMap::new();
    for code in Code::ALL {
        let name = code.name().to_str().expect("letters").to_uppercase();
        known.insert(format!("ENSILE_{name}"), (code as i32).to_string());
    }
    let source = |name| std::fs::read_to_string(package().join(name)).expect("the source");
    for line in (source("src/settings.rs") + &source("src/figures.rs")).lines() {
        let Some((name, value)) =
            line.trim().strip_prefix("pub const ").and_then(|rest| rest.split_once(": u32 = "))
        else {
            continue;
        };
        known.insert(format!("ENSILE_{name}"), value.trim_end_matches(';').to_owned());
    }
    assert!(known.len() > 30, "{known:?}");
    assert_eq!(declared, known);
    assert_eq!((ABI_VERSION, NO_OBJECT), (4, u64::MAX));
}

/// A line for each size and place of a struct, by Rust, and the lines of a program that print the same in C.
macro_rules! layout {
    ($out:ident, $type:ty, $name:literal, $($field:ident),+) => {
        writeln!($out.0, "{} {}", $name, size_of::<$type>()).expect("memory");
        writeln!($out.1, "printf(\"{} %zu\\n\", sizeof({}));", $name, $name).expect("memory");
        $(
            writeln!($out.0, "{} {}", stringify!($field), offset_of!($type, $field)).expect("memory");
            writeln!($out.1, "printf(\"{} %zu\\n\", offsetof({}, {}));", stringify!($field), $name, stringify!($field))
                .expect("memory");
        )+
    };
}

#[test]
fn every_struct_has_the_same_layout_and_the_headers_compile_without_a_warning() {
    need_tools();
    let mut out = (String::new(), String::new());
    layout!(out, ErrorText, "ensile_error", code, message);
    layout!(out, ForeignBytes, "ensile_bytes", data, size);
    layout!(out, ForeignReceipt, "ensile_receipt", epoch);
    layout!(
        out,
        ForeignApplication,
        "ensile_application",
        abi_version,
        version,
        user,
        load_one,
        replay_one,
        load_older,
        replay_older,
        checkpoint,
        next_object,
        save_one
    );
    layout!(
        out,
        ForeignCheckpoint,
        "ensile_checkpoint_report",
        number,
        entries,
        bytes,
        micros,
        reason,
        load,
        capacity,
        measure,
        threshold,
        reached
    );
    layout!(
        out,
        ForeignStats,
        "ensile_stats",
        epoch,
        durable_epoch,
        log_bytes,
        log_entries,
        log_syncs,
        log_files,
        log_file_bytes,
        checkpoints,
        checkpoints_failed,
        checkpoint_entries,
        checkpoint_bytes,
        load,
        log_bytes_threshold,
        log_records_threshold,
        recovery_micros,
        capacity,
        checkpoint_verdict,
        checkpoint_verdict_reason,
        checkpoint_last_reason,
        recovery_unreachable,
        interval_threshold_millis,
        applied_nanos,
        poisoned,
        waiting_object,
        waiting_millis
    );
    layout!(
        out,
        ForeignRecovery,
        "ensile_recovery",
        durable_epoch,
        generation,
        checkpoint_entries,
        checkpoint_bytes,
        log_entries,
        log_entries_ignored,
        log_entries_passed_over
    );
    let folder = empty_folder("layout");
    let source = format!(
        "#include <ensile/objects.h>\n#include <stdio.h>\nint main(void) {{\n{}return 0;\n}}\n",
        out.1
    );
    std::fs::write(folder.join("layout.c"), source).expect("saves");
    let compile = |compiler: &str, standard: &str| {
        let mut command = Command::new(compiler);
        command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
        command.arg(package().join("include")).current_dir(&folder);
        command
    };
    run(compile("cc", "-std=c99").args(["layout.c", "-o", "layout"]));
    assert_eq!(run(&mut Command::new(folder.join("layout"))), out.0);
    std::fs::write(folder.join("empty.cpp"), "#include <ensile/objects.hpp>\n").expect("saves");
    for standard in ["-std=c++17", "-std=c++20"] {
        run(compile("c++", standard).args(["-c", "empty.cpp"]));
    }
    std::fs::remove_dir_all(&folder).expect("is removed");
}
