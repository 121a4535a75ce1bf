//! How many lines each service has only so that it persists, call-backs and codecs included (SLACH §5: "less than one
//! day" of work). They are counted on formatted sources, without comments and empty lines: the whole of its
//! `persistence` module, with what it imports; elsewhere lines that end in `// persist`, lines that name something of
//! persistence, those that import it among them, the parameters that pass on what a reply rests on, and the whole
//! function that shows what is kept. What panics and what is poisoned counts as well: without a log nobody replays a
//! change that breaks off.
//!
//! The README says how many they are, and so does the table in `docs/results/slach.md`: both are held to it.
//!
//! The other way round, the library names no service.

use std::path::Path;

const LINES_MAX: usize = 80;

/// Each service: its module that persists, and its others.
const SERVICES: [(&str, &str, &[&str]); 3] = [
    (
        "pht",
        include_str!("../../src/pht/persistence.rs"),
        &[
            include_str!("../../src/pht/mod.rs"),
            include_str!("../../src/pht/table.rs"),
            include_str!("../../src/pht/bucket.rs"),
        ],
    ),
    (
        "ups",
        include_str!("../../src/ups/persistence.rs"),
        &[include_str!("../../src/ups/mod.rs"), include_str!("../../src/ups/properties.rs")],
    ),
    (
        "his",
        include_str!("../../src/his/persistence.rs"),
        &[include_str!("../../src/his/mod.rs"), include_str!("../../src/his/host.rs")],
    ),
];

/// What a line names that is there to persist.
const NAMES: [&str; 17] = [
    "persist",
    "ensile_objects",
    "ApplicationLog",
    "ObjectsBuilder",
    "ObjectsResult",
    "open_application",
    "KeptObjects",
    "EpochCount",
    "Epoch::",
    "ensile_base::Epoch",
    ".last",
    ".note(",
    "receipt",
    "Serialize,",
    "RestsOn",
    "oison",
    "unwind",
];

fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

/// The lines of a module, other than the one that persists, that are there to persist.
fn lines_that_persist(text: &str) -> Vec<&str> {
    let mut in_kept = false;
    let persists = |line: &&str| {
        in_kept |= line.contains("fn persistent_objects(");
        let is_in_kept = in_kept;
        // A method ends where its indentation does.
        in_kept &= *line != "    }";
        let is_passed_on = ["rests,", "&rests,", "&request.rests,"].contains(&line.trim());
        is_code(line) && (is_in_kept || is_passed_on || NAMES.iter().any(|name| line.contains(name)))
    };
    text.lines().filter(persists).collect()
}

#[test]
fn few_lines_of_a_service_are_there_to_persist() {
    let mut counted = Vec::new();
    let results = include_str!("../../../../docs/results/slach.md");
    for (name, persist, others) in SERVICES {
        let its_own = persist.lines().filter(|line| is_code(line)).count();
        let elsewhere: Vec<&str> = others.iter().flat_map(|text| lines_that_persist(text)).collect();
        let lines = its_own + elsewhere.len();
        println!("{name}: {lines} lines, {its_own} of them in its module that persists");
        elsewhere.iter().for_each(|line| println!("    {line}"));
        assert!((20..=LINES_MAX).contains(&lines), "{name}: {lines} lines, at most {LINES_MAX}");
        let row =
            format!("| {} | {its_own} | {} | {lines} | {LINES_MAX} |", name.to_uppercase(), elsewhere.len());
        assert!(results.contains(&row), "the table is to have {row}");
        counted.push(lines);
    }
    let said = format!("({}, {} and {} today)", counted[0], counted[1], counted[2]);
    let readme = include_str!("../../README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(readme.contains(&said), "the README is to say {said}");
}

#[test]
fn imports_modules_the_frame_of_what_is_kept_what_is_passed_on_and_what_is_poisoned_count() {
    let text = "mod persistence;\nmod other;\nuse ensile_objects::{A, B};\n\nimpl S {\n    // ensile_objects\n    fn persistent_objects(&self) -> &X \
                {\n        &self.x\n    }\n\n    fn other(\n        rests: &RestsOn,\n    ) {\n        look(\n            \
                rests,\n        );\n        self.x.poison();\n    }\n}\n";
    assert_eq!(lines_that_persist(text).len(), 8, "{:?}", lines_that_persist(text));
}

#[test]
fn the_library_names_no_service() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is among the crates");
    let mut files = 0;
    for library in ["ensile-objects", "ensile-durability"] {
        let mut folders = vec![crates.join(library).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("it is there") {
                let path = entry.expect("it is there").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                if path.ends_with("tests.rs") {
                    continue;
                }
                files += 1;
                let text = std::fs::read_to_string(&path).expect("text");
                for line in text.lines().filter(|line| is_code(line)) {
                    // Names of types and modules; parameters of table 3 may bear a service's name.
                    for name in
                        ["ensile_services", "PersistentTable", "UrlService", "HostService", "UrlProperties"]
                    {
                        assert!(!line.contains(name), "{}: {line}", path.display());
                    }
                    let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
                    let named =
                        words.filter(|word| ["pht", "Pht", "ups", "Ups", "his", "His"].contains(word));
                    assert_eq!(named.count(), 0, "{}: {line}", path.display());
                }
            }
        }
    }
    assert!(files > 60, "{files} files");
}
