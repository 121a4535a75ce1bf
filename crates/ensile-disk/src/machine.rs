//! What the system tells of the machine in files of its own.
//!
//! Neighbour: the engine's threads ask when a database opens.

/// Where Linux has the numbers of the memory nodes: `0`, or `0-1`. Not there if it was built for one.
const NODES: &str = "/sys/devices/system/node/online";

/// Whether all of the machine's memory is as near to each core. True where the system does not say.
///
/// ```
/// // A machine has one node or several, and says the same each time.
/// assert_eq!(ensile_disk::has_one_memory_node(), ensile_disk::has_one_memory_node());
/// ```
#[must_use]
pub fn has_one_memory_node() -> bool {
    std::fs::read_to_string(NODES).map_or(true, |nodes| is_one(&nodes))
}

fn is_one(nodes: &str) -> bool {
    nodes.trim().parse::<u32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_one;

    #[test]
    fn one_node_is_one_number() {
        assert!(is_one("0\n"));
        assert!(!is_one("0-1\n"));
        assert!(!is_one("0,2\n"));
    }
}
