//! A process knows itself, and a child that is forked from it is another one.

use super::Process;

#[test]
fn a_process_is_itself_until_a_simulator_says_that_it_was_forked() {
    let process = Process::this();
    assert!(process.is_this() && process.clone().is_this() && Process::this().is_this());
    let simulated = Process::simulated();
    let clone = simulated.clone();
    simulated.set_forked(true);
    assert!(!simulated.is_this() && !clone.is_this() && process.is_this());
    simulated.set_forked(false);
    assert!(simulated.is_this() && clone.is_this());
}
