//! Two hosts with one `ip=`, and so by default with one Ethernet address as well.

use super::{Network, Running};
use crate::support::srnic;

/// Pings a host that nobody is.
fn ping(network: &Network, socket: u8, ip: u8) -> Running {
    let mut command = srnic("ping");
    let device = format!("memif:{},role=client,ip=10.77.0.{ip}", network.socket(socket));
    command.args(["-d", &device, "-c", "1", "10.77.0.200"]);
    Running::start(command)
}

#[test]
fn the_newer_of_two_hosts_with_one_address_is_told() {
    let network = Network(super::Place::new("switch-twins"));
    let _switch = network.switch(3, "");
    let mut older = network.tool(1, network.0.port, true, "-n 1");
    older.wait_for("waiting");
    let newer = ping(&network, 2, 1).end();
    newer.assert_failed(2, "10.77.0.1 is the address of another host, too");
    // One with an address of its own is not told so.
    let other = ping(&network, 3, 3).end();
    other.assert_failed(2, "10.77.0.200");
    assert!(!String::from_utf8_lossy(&other.0.stderr).contains("another host, too"));
}
