//! The driver's side of a system's process, which is stopped except during an answer.
//!
//! A stopped process takes neither core nor disk from the system under measurement.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::child::{Reply, Request};
use crate::failure::Result;
use crate::store::Peer;

/// A process of this program that serves one system. A drop kills the process.
pub(super) struct Process {
    peer: Peer,
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a process for the database in a folder.
    pub(super) fn start(peer: Peer, folder: &Path, rows: u64, seed: u64) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--child", &peer.to_string(), "--rows", &rows.to_string(), "--seed", &seed.to_string()])
            .arg("--data")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let requests = child.stdin.take();
        let replies = BufReader::new(child.stdout.take().ok_or("a process has no standard output")?);
        Ok(Self { peer, child, requests, replies })
    }

    /// Lets the process answer a request, and stops the process again.
    pub(super) fn ask(&mut self, request: Request) -> Result<Reply> {
        let title = self.peer.title();
        self.signal(Signal::CONT)?;
        let requests = self.requests.as_mut().ok_or("a process has ended")?;
        writeln!(requests, "{}", serde_json::to_string(&request)?)?;
        let mut line = String::new();
        if self.replies.read_line(&mut line)? == 0 {
            return Err(format!("{title}: the process died at {request:?}").into());
        }
        let reply = serde_json::from_str(&line)?;
        if let Reply::Failed(error) = reply {
            return Err(format!("{title}: {request:?}: {error}").into());
        }
        self.signal(Signal::STOP)?;
        Ok(reply)
    }

    /// Kills the process.
    pub(super) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Lets the process end.
    pub(super) fn end(mut self) -> Result<()> {
        self.requests = None;
        self.signal(Signal::CONT)?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("{}: {status}", self.peer.title()).into()) }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).ok_or("no such process")?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
