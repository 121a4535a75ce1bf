//! The file of the Unix socket: bound at the start, removed at the end.
//!
//! Neighbours: [`super::settings`] has the path and the permissions; `ensile-serving` binds.

use std::fs::{Permissions, remove_file, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ensile_net::UnixSocket;
use ensile_serving::threads::bind_unix_socket;

/// A bound Unix socket. The drop removes the file.
pub(super) struct SocketFile {
    path: PathBuf,
    socket: UnixSocket,
}

impl SocketFile {
    /// Binds a socket, and sets the permissions of its file.
    ///
    /// # Errors
    /// The reason in words, with the path.
    pub(super) fn bind(path: &Path, mode: Option<u32>) -> Result<Self, String> {
        let at = |error: std::io::Error| {
            format!("unixsocket {}: {error}; give a path that no other file has", path.display())
        };
        let file = Self { path: path.to_owned(), socket: bind_unix_socket(path).map_err(at)? };
        if let Some(mode) = mode {
            set_permissions(path, Permissions::from_mode(mode)).map_err(at)?;
        }
        Ok(file)
    }

    pub(super) fn socket(&self) -> UnixSocket {
        self.socket.clone()
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The next start replaces a file that stays.
        let _ = remove_file(&self.path);
    }
}
