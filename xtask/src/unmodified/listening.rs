//! Waiting until a program waits for its client: those clients try once.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::process::Process;

const INTERVAL: Duration = Duration::from_millis(5);
/// The kernel's tables of TCP sockets. A socket of IPv6 may serve IPv4 as well.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// Waits until somebody listens at `port`, `limit` at most, or `server` has ended.
pub fn wait(server: &mut Process, port: u16, limit: Duration) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !TABLES.iter().any(|table| listens(&fs::read_to_string(table).unwrap_or_default(), port)) {
        interrupt::check()?;
        if server.is_done()? {
            return Err(Error::new("the server ended before its client came"));
        }
        if Instant::now() > deadline {
            return Err(Error(format!("nobody listens at port {port}")));
        }
        sleep(INTERVAL);
    }
    Ok(())
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
    fn only_who_waits_for_clients_listens() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
                     0: 00000000:4A38 00000000:0000 0A 00000000:00000000\n\
                     1: 0100007F:1F90 0100007F:A2C4 01 00000000:00000000\n";
        assert!(listens(table, 19000));
        assert!(!listens(table, 8080) && !listens(table, 0x4A39));
    }
}
