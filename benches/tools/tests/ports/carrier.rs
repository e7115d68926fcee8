//! An interface that no frames can pass says what it lacks.

use super::alone;
use super::namespace::Veth;
use super::support::{Running, program};

#[test]
fn an_interface_without_a_carrier_or_down_or_gone_says_so() {
    let _alone = alone();
    let Some(veth) = Veth::new(1500) else { return };
    veth.run("ip link set right down");
    let mut ping = veth.command(program());
    ping.args(["ping", "-d", "af_packet:left,ip=10.9.0.1", "10.9.0.2"]);
    let mut ping = Running::start(ping);
    ping.wait_for("waiting: the link did not come up yet; interface left has no carrier: ");
    veth.run("ip link set left down");
    ping.wait_for("waiting: the link did not come up yet; interface left is down: `ip link set left up`");
    veth.run("ip link delete left");
    ping.end().assert_failed(2, "interface left is gone: close the device, and open it again");
}
