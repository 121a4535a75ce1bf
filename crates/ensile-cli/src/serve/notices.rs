//! Notices to the service manager: the end of the load, and the end of the server.
//!
//! Neighbours: [`super::run`] tells; `ensile-net` sends.

use ensile_net::notify_service_manager;

/// Variable with the address of the service manager; without it, no one waits for notices.
const NOTIFY_VARIABLE: &str = "NOTIFY_SOCKET";

/// Tells a state. A failure does not stop the server.
pub(super) fn notify(state: &str) {
    if let Some(address) = std::env::var_os(NOTIFY_VARIABLE) {
        let _ = notify_service_manager(&address, state);
    }
}
