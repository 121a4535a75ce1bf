//! `ensile serve` in a process of its own, which is killed when the test ends.
//!
//! Neighbours: the tests of the command and of redis' tools start servers; [`Folder`] has the folder.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::outside::Folder;

/// A server over the folder `data` of a test's folder, at a free port.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server with the options of a line; standard error goes to the file `stderr`.
    pub(crate) fn start(folder: &Folder, options: &str) -> Self {
        Self::start_with(folder, options, &[])
    }

    /// As [`Server::start`], with variables of the environment.
    pub(crate) fn start_with(folder: &Folder, options: &str, variables: &[(&str, &str)]) -> Self {
        let notices = File::create(folder.0.join("stderr")).expect("a file");
        let mut process = Command::new(env!("CARGO_BIN_EXE_ensile"))
            .args(["serve", "--data", "data", "--port", "0"])
            .args(options.split_whitespace())
            .current_dir(&folder.0)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(notices)
            .spawn()
            .expect("it was built");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut line).expect("a pipe");
        let address = line.trim().parse();
        let address = address.unwrap_or_else(|_| panic!("no address: {line:?}; {}", told(folder)));
        Self { process, address }
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal, by its name.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().expect("it is there").success());
    }

    /// Waits for the end.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.process.wait().expect("it was started")
    }

    /// Ends the process at once.
    pub(crate) fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it was started");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Text on standard error so far.
pub(crate) fn told(folder: &Folder) -> String {
    std::fs::read_to_string(folder.0.join("stderr")).unwrap_or_default()
}
