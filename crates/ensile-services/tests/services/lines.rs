//! How many lines each service has only so that it persists, call-backs and codecs included (SLACH §5: "less than one
//! day" of work). They are counted on formatted sources, without comments and empty lines: the whole of its `persist`
//! module, and lines elsewhere that end in `// persist`.

const LINES_MAX: usize = 80;

/// Each service: its module that persists, and its others.
const SERVICES: [(&str, &str, &[&str]); 3] = [
    (
        "pht",
        include_str!("../../src/pht/persist.rs"),
        &[
            include_str!("../../src/pht/mod.rs"),
            include_str!("../../src/pht/table.rs"),
            include_str!("../../src/pht/bucket.rs"),
        ],
    ),
    (
        "ups",
        include_str!("../../src/ups/persist.rs"),
        &[include_str!("../../src/ups/mod.rs"), include_str!("../../src/ups/properties.rs")],
    ),
    (
        "his",
        include_str!("../../src/his/persist.rs"),
        &[include_str!("../../src/his/mod.rs"), include_str!("../../src/his/host.rs")],
    ),
];

fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

fn count(persist: &str, others: &[&str]) -> usize {
    let marked = |text: &&str| text.lines().filter(|line| line.trim_end().ends_with("// persist")).count();
    persist.lines().filter(|line| is_code(line)).count() + others.iter().map(marked).sum::<usize>()
}

#[test]
fn few_lines_of_a_service_are_there_to_persist() {
    for (name, persist, others) in SERVICES {
        let lines = count(persist, others);
        println!("{name}: {lines} lines");
        assert!((20..=LINES_MAX).contains(&lines), "{name}: {lines} lines, at most {LINES_MAX}");
    }
}

#[test]
fn what_logs_and_decodes_stands_in_the_persist_modules_or_is_marked() {
    let names =
        ["ApplicationLog", "receipt", "persist::", "self.log", "open_application", "Serialize,", "kept()"];
    for text in SERVICES.iter().flat_map(|(_, _, others)| *others) {
        let code = text.lines().filter(|line| is_code(line) && !line.starts_with("use "));
        for line in code.filter(|line| names.iter().any(|name| line.contains(name))) {
            assert!(line.ends_with("// persist"), "unmarked: {line}");
        }
    }
}
