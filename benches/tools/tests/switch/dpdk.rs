//! A switch with many ports of DPDK's.

use crate::Network;
use crate::support::{Place, Running, srnic};

fn switch(network: &Network, ports: u8, keys: &str) -> Running {
    let mut command = srnic("switch");
    command.args((1..=ports).map(|host| format!("vhost:{},hugepages=off{keys}", network.socket(host))));
    Running::start(command)
}

#[test]
fn who_needs_more_memory_is_told_the_option_and_the_option_helps() {
    let network = Network(Place::new("switch-memory"));
    switch(&network, 8, ",memory=100").end().assert_failed(1, "memory=");
    switch(&network, 8, ",memory=400").wait_for("switching 8 ports");
}

#[test]
fn a_later_device_cannot_have_more_than_there_is() {
    let network = Network(Place::new("switch-more-memory"));
    let vhost = |host: u8, keys: &str| format!("vhost:{},hugepages=off{keys}", network.socket(host));
    let switch = |second: &str| {
        let mut command = srnic("switch");
        command.args([vhost(1, ",memory=100"), vhost(2, second)]);
        Running::start(command)
    };
    switch(",memory=200").end().assert_failed(1, "without as much memory as memory= asks for");
    for enough in ["", ",memory=100", ",memory=64"] {
        switch(enough).wait_for("switching 2 ports");
    }
}

#[test]
fn more_devices_than_dpdk_has_room_for_are_named() {
    let network = Network(Place::new("switch-devices"));
    switch(&network, 40, ",memory=2000,mtu=1500").end().assert_failed(1, "zero-copy=on");
}
