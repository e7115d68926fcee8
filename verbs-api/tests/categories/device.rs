//! Devices and their ports (protocol.md 1.3, 1.8).

use crate::net::usual;
use core::net::IpAddr;
use verbs_api::{SrqCaps, WindowType, WireMode};

on_every_lan! {

/// What a device says that it has is what calls check (1.9: a refused call changes nothing).
fn limits_are_those_that_calls_check(lan: Lan) {
    let [host, _peer] = lan.hosts_of(|builder| builder.max_qps(2).max_cqs(2).max_mrs(3).max_ahs(1));
    let can = host.device.query();
    assert_eq!((can.max_qp, can.max_cq, can.max_mr, can.max_ah, can.phys_port_cnt), (2, 2, 3, 1, 1));
    let pairs = [0, 1].map(|_| usual(&host).build().expect("two fit"));
    let refused = usual(&host).build().err().expect("a third does not").to_string();
    assert!(refused.contains("queue pairs") && refused.contains('2'), "{refused}");
    drop(pairs);
    usual(&host).build().expect("there is room again");

    let cq = host.device.create_cq(1).expect("the second");
    let refused = host.device.create_cq(1).err().expect("a third does not fit").to_string();
    assert!(refused.contains("completion queues"), "{refused}");
    drop(cq);
    host.device.create_cq(1).expect("there is room again");

    let regions = [0, 1, 2].map(|_| host.region(64));
    assert!(host.pd.register(64, verbs_api::Access::empty()).is_err(), "a fourth");
    drop(regions);
    host.region(64);
}

/// The port's GID is the device's address (1.8), its one P_Key the default one (1.6).
fn a_port_is_active_and_has_an_address(lan: Lan) {
    let hosts = lan.hosts();
    for host in &hosts {
        let port = host.device.query_port();
        assert!(port.active);
        assert_eq!((port.mac, port.max_mtu), (host.device.mac(), host.device.path_mtu_max().in_dialect(WireMode::Plain)));
        let IpAddr::V4(ip) = host.device.ip() else { panic!("IPv4 by default") };
        assert_eq!(host.device.query_gid(0), Some(ip.to_ipv6_mapped().octets()));
        assert_eq!((host.device.query_pkey(0), host.device.query_pkey(1)), (Some(0xFFFF), None));
    }
}

/// Shared receive queues and windows are counted, too, and what is dropped makes room.
fn shared_queues_and_windows_are_bounded(lan: Lan) {
    let [host, _peer] = lan.hosts_of(|builder| builder.max_mrs(4).max_srqs(3));
    let caps = SrqCaps { max_wr: 1, max_sge: 1 };
    assert_eq!(host.device.query().max_srq, 3);
    for _ in 0..2 {
        let queues: Vec<_> = (0..3).map(|_| host.pd.create_srq(caps).expect("three fit")).collect();
        let refused = host.pd.create_srq(caps).err().expect("one more").to_string();
        assert!(refused.contains("shared receive queues of the device are in use"), "{refused}");
        drop(queues);
        // Regions and windows have one table.
        let region = host.region(64);
        let windows = [WindowType::One, WindowType::Two, WindowType::Two].map(|kind| host.pd.alloc_window(kind));
        assert!(windows.iter().all(Result::is_ok));
        let refused = host.pd.alloc_window(WindowType::One).err().expect("a fifth").to_string();
        assert!(refused.contains('4'), "{refused}");
        drop((region, windows));
    }
}

/// Threads of one process open devices, use them and close them.
fn devices_open_in_threads(lan: Lan) {
    let one = || {
        for wr_id in 0..3 {
            let mut net = crate::net::Net::new(lan);
            net.receive(1, wr_id, &[]);
            net.post(0, &crate::net::nothing().id(wr_id));
            assert_eq!((net.done(1).wr_id, net.done(0).wr_id), (wr_id, wr_id));
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(one))));
}

/// Two links of one process do not meet (1.2: other addresses are other connections).
fn links_are_apart(lan: Lan) {
    let (one, two) = (lan.hosts(), lan.hosts());
    let mut first = crate::net::Net { pairs: crate::net::connect(&one, |_, builder| builder), hosts: one };
    let mut second = crate::net::Net { pairs: crate::net::connect(&two, |_, builder| builder), hosts: two };
    for (net, wr_id) in [(&mut first, 1), (&mut second, 2)] {
        net.receive(1, wr_id, &[]);
        net.post(0, &crate::net::nothing().id(wr_id));
        assert_eq!((net.done(1).wr_id, net.done(0).wr_id), (wr_id, wr_id));
    }
}

}
