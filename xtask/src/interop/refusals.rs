//! Connections that nobody waits for: either connection manager hears the other's refusal, and why.

use std::path::Path;

use super::cases::{Ip, RPING};
use super::namespace::{self, ENGINE_IP, GUEST_IP, Namespace};
use crate::error::{Error, Result};
use crate::guest::Guest;

type Refusal = fn(&Namespace, &mut Guest, &Path) -> Result<()>;

/// Both directions, by the role of the stock end. The last argument is our program.
pub const ALL: [(&str, Refusal); 2] =
    [("rping refused server", by_the_guest), ("rping refused client", by_us)];

/// Nobody listens in the guest.
fn by_the_guest(namespace: &Namespace, _: &mut Guest, ours: &Path) -> Result<()> {
    let mut command = namespace.command(ours);
    command.args(["rping", "-d", &Ip::V4.device(), GUEST_IP]);
    expect_failure(
        namespace::spawn(&mut command)?.end(),
        "rejected the connection: nobody listens to that port",
    )
}

/// We listen elsewhere; and are heard there afterwards.
fn by_us(namespace: &Namespace, guest: &mut Guest, ours: &Path) -> Result<()> {
    let mut command = namespace.command(ours);
    command.args(["rping", "-d", &Ip::V4.device()]);
    let mut listening = namespace::spawn(&mut command)?;
    listening.wait_for("waiting for a client")?;
    guest.begin(&format!("{RPING} -c -a {ENGINE_IP} -p 7999 -C 1"))?;
    // 8: invalid service ID.
    expect_failure(guest.end(), "RDMA_CM_EVENT_REJECTED, error 8")?;
    guest.begin(&format!("{RPING} -c -a {ENGINE_IP} -C 1"))?;
    guest.end()?;
    println!("ours: {}", listening.end()?);
    Ok(())
}

/// It must have failed, and said this.
fn expect_failure(outcome: Result<String>, words: &str) -> Result<()> {
    match outcome {
        Ok(said) => Err(Error(format!("it was to be refused, and said: {said}"))),
        Err(error) if error.to_string().contains(words) => {
            println!("refused, as it is to be: {words}");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
