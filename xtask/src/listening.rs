//! Waiting until a program waits for its client: those clients try once.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::process::Process;

const INTERVAL: Duration = Duration::from_millis(5);

/// Waits until somebody listens at `port` in the network of `server`, `limit` at most, or it has
/// ended.
pub fn wait(server: &mut Process, port: u16, limit: Duration) -> Result<()> {
    // A socket of IPv6 may serve IPv4 as well.
    let tables = ["tcp", "tcp6"].map(|name| format!("/proc/{}/net/{name}", server.id()));
    wait_until(server, limit, &format!("at port {port}"), || {
        tables.iter().any(|table| listens(&fs::read_to_string(table).unwrap_or_default(), port))
    })
}

/// Waits until somebody listens at a socket's path, `limit` at most, or `server` has ended.
pub fn wait_for_socket(server: &mut Process, socket: &Path, limit: Duration) -> Result<()> {
    wait_until(server, limit, &format!("at {}", socket.display()), || {
        accepts(&fs::read_to_string("/proc/net/unix").unwrap_or_default(), &socket.to_string_lossy())
    })
}

/// Waits until `ip netns exec`, which `server` is at first, has entered its namespace: until then,
/// the tables of its network are those of this process.
pub fn wait_for_namespace(server: &mut Process, limit: Duration) -> Result<()> {
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let (own, id) = (network("self"), server.id().to_string());
    wait_until(server, limit, "in its namespace", || network(&id).is_some_and(|network| Some(network) != own))
}

/// Waits until `server` has opened an interface of its network, `limit` at most, or it has ended.
pub fn wait_for_interface(server: &mut Process, limit: Duration) -> Result<()> {
    let table = format!("/proc/{}/net/packet", server.id());
    wait_until(server, limit, "at an interface", || {
        // Behind the headings, a line for each packet socket.
        fs::read_to_string(&table).is_ok_and(|sockets| sockets.lines().count() > 1)
    })
}

fn wait_until(server: &mut Process, limit: Duration, place: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !is_so() {
        interrupt::check()?;
        if server.is_done()? {
            return Err(Error::new("the server ended before its client came"));
        }
        if Instant::now() > deadline {
            return Err(Error(format!("nobody listens {place}")));
        }
        sleep(INTERVAL);
    }
    Ok(())
}

/// Whether a socket of this path waits for connections, by the kernel's table.
fn accepts(table: &str, path: &str) -> bool {
    /// `__SO_ACCEPTCON`, in the column of flags.
    const ACCEPTS: &str = "00010000";
    table.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(3) == Some(ACCEPTS) && fields.nth(3) == Some(path)
    })
}

/// Whether a socket of this port is in the state LISTEN.
fn listens(table: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let port = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(1).is_some_and(|local| local.ends_with(&port)) && fields.nth(1) == Some(LISTEN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_connected_does_not_listen() {
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
                     0: 00000002 00000000 00010000 0001 01 31 /tmp/a\n\
                     0: 00000003 00000000 00000000 0001 03 32 /tmp/b\n";
        assert!(accepts(table, "/tmp/a"));
        assert!(!accepts(table, "/tmp/b") && !accepts(table, "/tmp"));
    }

    #[test]
    fn only_who_waits_for_clients_listens() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
                     0: 00000000:4A38 00000000:0000 0A 00000000:00000000\n\
                     1: 0100007F:1F90 0100007F:A2C4 01 00000000:00000000\n";
        assert!(listens(table, 19000));
        assert!(!listens(table, 8080) && !listens(table, 0x4A39));
    }
}
