//! Devices that cannot be opened: each error says what to do.

use super::{FILE, Pair, alone, is_root};
use crate::support::{Ended, Place, Running, srnic};
use std::os::unix::net::UnixListener;

fn receive_on(device: &str) -> Ended {
    let place = Place::new("refused");
    let mut command = srnic(FILE);
    command.args(["recv", "-d", device, "--out"]).arg(place.path("out"));
    Running::start(command).end()
}

#[test]
fn a_device_that_is_not_there_is_named_with_what_to_do() {
    let _alone = alone();
    let place = Place::new("no-socket");
    let file = place.path("file").display().to_string();
    std::fs::write(&file, "").expect("room for a file");
    for (device, code, reason) in [
        ("infiniband:mlx5_0", 2, "unknown device scheme `infiniband`; supported: memif, vhost"),
        ("vhost:/tmp/s,role=server", 2, "unknown device key `role`; keys are ip, mac"),
        ("af_packet:lo", 1, "af_packet:lo has no IP address; add one"),
        ("af_packet:srnic-none,ip=10.9.0.1", 1, "interface srnic-none: there is none of this name"),
        ("af_packet:lo,ip=10.9.0.1", 1, "interface lo: it is no Ethernet interface; use another"),
        ("af_xdp:srnic-none,ip=10.9.0.1", 1, "interface srnic-none: there is none of this name"),
        ("pci:ff:1f.7,ip=10.9.0.1", 1, "NIC 0000:ff:1f.7: there is none; `lspci -D` lists"),
        ("vhost:/srnic-missing/s", 1, "its directory does not exist; make it first"),
        ("virtio:s", 1, "the path must be absolute"),
        (&format!("memif:{file},role=server"), 1, "something that is no socket is there"),
        (&format!("vhost:{file}"), 1, "something that is no socket is there"),
    ] {
        receive_on(device).assert_failed(code, reason);
    }
}

#[test]
fn a_socket_that_is_taken_is_named() {
    let _alone = alone();
    let place = Place::new("taken");
    let socket = place.path("s");
    let _taken = UnixListener::bind(&socket).expect("a fresh path");
    for device in [format!("vhost:{}", socket.display()), format!("memif:{},role=server", socket.display())] {
        receive_on(&device).assert_failed(1, "another server is listening on it; use another path");
    }
}

#[test]
fn a_user_who_may_not_is_told_what_gives_the_permission() {
    let _alone = alone();
    let mut pair = Pair::sockets("permission", ["memif", "memif"], "");
    pair.unprivileged = is_root();
    pair.devices[0] = "af_packet:lo,ip=10.9.0.1,mac=02:00:00:00:00:07".into();
    let refused = pair.start_file(0, "").end();
    refused.assert_failed(1, "this user may not use an interface's frames: run as root, or give the program");
}

#[test]
fn two_ends_of_a_memif_pair_with_other_mtus_are_told_so() {
    let _alone = alone();
    let mut pair = Pair::sockets("mtu", ["memif", "memif"], "");
    pair.devices[1] += ",mtu=1500";
    let (server, client) = (pair.start_write_bw(0, "-m 1024"), pair.start_write_bw(1, "-m 1024"));
    client
        .end()
        .assert_failed(1, "the MTU of the link, in bytes, is 1500 here and 4590 at the peer: give both ends");
    assert_eq!(server.end().0.status.code(), Some(1));
}
