//! Runs a command from outside, in a folder that is gone when the test ends.
//!
//! Neighbours: the tests of the commands `ensile`, `ensile-bench` and `ensile-papers`.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder that is gone when the test ends.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ensile-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    /// Runs `program` in the folder with the words of a line; the answer has what it printed, and its errors.
    pub(crate) fn run(&self, program: &str, line: &str) -> (Output, String, String) {
        let output = Command::new(program)
            .args(line.split_whitespace())
            .current_dir(&self.0)
            .output()
            .expect("it starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        (output, stdout, stderr)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left behind in the temporary folder fails no test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
