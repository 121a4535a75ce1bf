//! Rows are added and replaced by the names of their bugs, and read back as they were.
//!
//! Neighbours: [`super::Results`].

use super::{Results, Sighting};

fn sighting(bug: &str, output: &str) -> Sighting {
    Sighting {
        bug: bug.to_owned(),
        condition: "L1".to_owned(),
        hash: "0123456789abcdef".to_owned(),
        build_seconds: 3,
        test_seconds: 1,
        output: output.to_owned(),
        command: "RUSTFLAGS=\"--cfg loom\" cargo test".to_owned(),
    }
}

#[test]
fn a_row_takes_the_place_of_the_one_before_and_others_stay() {
    let root = std::env::temp_dir().join(format!("ensile-planted-results-{}", std::process::id()));
    std::fs::create_dir_all(root.join("docs/results")).expect("a folder");
    let results = Results::of(&root, false);
    assert!(results.read().expect("none yet").is_empty());
    for row in
        [sighting("L1-b", "old"), sighting("L1-a", "with \"quotes\", and a comma"), sighting("L1-b", "new")]
    {
        results.add(row).expect("writes");
    }
    let rows: Vec<_> = results.read().expect("reads").into_values().collect();
    assert_eq!(rows, [sighting("L1-a", "with \"quotes\", and a comma"), sighting("L1-b", "new")]);
    results.retain(|bug| bug == "L1-b").expect("writes");
    assert_eq!(results.read().expect("reads").into_values().collect::<Vec<_>>(), [sighting("L1-b", "new")]);
    std::fs::remove_dir_all(&root).expect("it was there");
}
