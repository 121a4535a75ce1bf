//! How many lines each service has only so that it persists, call-backs and codecs included (SLACH §5: "less than one
//! day" of work). They are counted on formatted sources, without comments and empty lines: the whole of its `persist`
//! module, and lines elsewhere that end in `// persist`.

const LINES_MAX: usize = 80;

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
    let services = [(
        "pht",
        count(
            include_str!("../../src/pht/persist.rs"),
            &[include_str!("../../src/pht/mod.rs"), include_str!("../../src/pht/table.rs")],
        ),
    )];
    for (name, lines) in services {
        println!("{name}: {lines} lines");
        assert!((20..=LINES_MAX).contains(&lines), "{name}: {lines} lines, at most {LINES_MAX}");
    }
}

#[test]
fn what_logs_and_decodes_stands_in_the_persist_modules_or_is_marked() {
    let (table, commands) = (include_str!("../../src/pht/table.rs"), include_str!("../../src/pht/mod.rs"));
    let names = ["ApplicationLog", "receipt", "persist::", "self.log"];
    for line in [table, commands].iter().flat_map(|text| text.lines()).filter(|line| is_code(line)) {
        let names_it = names.iter().any(|name| line.contains(name)) && !line.starts_with("use ");
        assert!(!names_it || line.ends_with("// persist"), "unmarked: {line}");
    }
}
