//! Memory windows (protocol.md 1.11).

use crate::net::{Net, bytes, connect};
use verbs_api::{
    Access, MemoryRegion, RemoteAddr, SendData, SendRequest, WcFlags, WcOpcode, WcStatus, WindowType,
};

/// Memory that windows can open.
fn region(net: &Net) -> MemoryRegion {
    net.hosts[1].pd.register(256, Access::LOCAL_WRITE | Access::MW_BIND).expect("memory")
}

fn write(region: &MemoryRegion, offset: u64, rkey: u32) -> SendRequest<'static> {
    let to = RemoteAddr { addr: region.addr() + offset, rkey };
    SendRequest::write(SendData::Inline(&[7; 8]), to).signaled()
}

on_every_lan! {

/// A window opens its range and nothing else; binding it anew ends the old key.
fn a_window_opens_its_range_until_it_is_bound_anew(lan: Lan) {
    for kind in [WindowType::One, WindowType::Two] {
        let mut net = Net::new(lan);
        let region = region(&net);
        let mut window = net.hosts[1].pd.alloc_window(kind).expect("a window");
        let first = window.bind(&mut net.pairs[1], 1, &region, 64..96, Access::REMOTE_WRITE).expect("posted");
        let bound = net.done(1);
        assert_eq!((bound.wr_id, bound.status, bound.opcode), (1, WcStatus::Success, WcOpcode::BindMw));
        net.post(0, &write(&region, 88, first));
        assert_eq!(net.ended(0).1, WcStatus::Success, "{kind:?}");
        net.post(0, &write(&region, 89, first));
        assert_eq!(net.ended(0).1, WcStatus::RemAccessErr, "{kind:?}: beyond its end");
        let mut expected = [0; 256];
        expected[88..96].fill(7);
        assert_eq!(bytes(&region), expected);
        if kind == WindowType::One {
            net.reconnect();
            let second = window.bind(&mut net.pairs[1], 2, &region, .., Access::REMOTE_WRITE).expect("posted");
            assert_eq!(net.ended(1), (2, WcStatus::Success));
            assert_ne!(first, second);
            net.post(0, &write(&region, 0, second));
            assert_eq!(net.ended(0).1, WcStatus::Success);
            net.post(0, &write(&region, 64, first));
            assert_eq!(net.ended(0).1, WcStatus::RemAccessErr, "the old key");
        }
    }
}

/// A window gives no right that it was not bound with.
fn a_window_gives_only_its_rights(lan: Lan) {
    let mut net = Net::new(lan);
    let region = region(&net);
    let mut window = net.hosts[1].pd.alloc_window(WindowType::Two).expect("a window");
    let rkey = window.bind(&mut net.pairs[1], 1, &region, .., Access::REMOTE_READ).expect("posted");
    assert_eq!(net.ended(1), (1, WcStatus::Success));
    let result = net.hosts[0].region(8);
    let (into, from) = ([result.slice(..).expect("all")], RemoteAddr { addr: region.addr(), rkey });
    net.post(0, &SendRequest::read(&into, from).signaled());
    assert_eq!(net.ended(0).1, WcStatus::Success);
    net.post(0, &write(&region, 0, rkey));
    assert_eq!(net.ended(0).1, WcStatus::RemAccessErr);
}

/// A window of type 2 is its queue pair's: through another one its key opens nothing.
fn a_window_of_type_two_is_of_one_queue_pair(lan: Lan) {
    let mut net = Net::new(lan);
    let region = region(&net);
    let mut others = connect(&net.hosts, |_, builder| builder);
    let mut window = net.hosts[1].pd.alloc_window(WindowType::Two).expect("a window");
    let rkey = window.bind(&mut net.pairs[1], 1, &region, .., Access::REMOTE_WRITE).expect("posted");
    assert_eq!(net.ended(1), (1, WcStatus::Success));
    others[0].post_send(&write(&region, 0, rkey)).expect("posted");
    assert_eq!(net.ended(0).1, WcStatus::RemAccessErr);
    assert_eq!(bytes(&region), [0; 256]);
    net.post(0, &write(&region, 0, rkey));
    assert_eq!(net.ended(0).1, WcStatus::Success);
}

/// LOCAL_INV and SEND with invalidate end a window; the latter only after its data are placed, and
/// says so.
fn a_window_ends_by_either_invalidation(lan: Lan) {
    let mut net = Net::new(lan);
    let region = region(&net);
    let mut window = net.hosts[1].pd.alloc_window(WindowType::Two).expect("a window");
    let rkey = window.bind(&mut net.pairs[1], 1, &region, .., Access::REMOTE_WRITE).expect("posted");
    assert_eq!(net.ended(1), (1, WcStatus::Success));
    window.invalidate(&mut net.pairs[1], 2).expect("posted");
    let ended = net.done(1);
    assert_eq!((ended.wr_id, ended.status, ended.opcode), (2, WcStatus::Success, WcOpcode::LocalInv));
    net.post(0, &write(&region, 0, rkey));
    assert_eq!(net.ended(0).1, WcStatus::RemAccessErr);

    net.reconnect();
    let rkey = window.bind(&mut net.pairs[1], 3, &region, .., Access::REMOTE_WRITE).expect("posted");
    assert_eq!(net.ended(1), (3, WcStatus::Success));
    let target = net.hosts[1].region(8);
    net.receive(1, 4, &[target.slice(..).expect("all")]);
    net.post(0, &SendRequest::send_with_invalidate(SendData::Inline(&[9; 8]), rkey));
    let received = net.done(1);
    assert_eq!((received.wr_id, received.flags, received.imm), (4, WcFlags::WITH_INV, rkey));
    assert_eq!(bytes(&target), [9; 8]);
    net.post(0, &write(&region, 0, rkey));
    assert_eq!(net.ended(0).1, WcStatus::RemAccessErr);
    assert_eq!(bytes(&region), [0; 256]);
}

/// 1.6: what is no window of the peer's cannot be ended by it.
fn a_region_is_not_ended_by_a_peer(lan: Lan) {
    let mut net = Net::new(lan);
    let region = net.hosts[1].pd.register(64, crate::net::ALL | Access::MW_BIND).expect("memory");
    let mut others = connect(&net.hosts, |_, builder| builder);
    let mut shared = net.hosts[1].pd.alloc_window(WindowType::One).expect("a window");
    let mut foreign = net.hosts[1].pd.alloc_window(WindowType::Two).expect("a window");
    for window in [&mut shared, &mut foreign] {
        window.bind(&mut others[1], 1, &region, .., Access::REMOTE_WRITE).expect("posted");
        assert_eq!(net.ended(1), (1, WcStatus::Success));
    }
    for rkey in [region.rkey(), shared.rkey(), foreign.rkey(), 0xDEAD_BEEF] {
        net.receive(1, 1, &[]);
        net.post(0, &SendRequest::send_with_invalidate(SendData::Inline(&[]), rkey).id(2));
        assert_eq!(net.ended(0), (2, WcStatus::RemAccessErr), "{rkey:#x}");
        assert_ne!(net.ended(1).1, WcStatus::Success);
        net.reconnect();
    }
    // All of them open what they did before.
    for rkey in [region.rkey(), shared.rkey(), foreign.rkey()] {
        others[0].post_send(&write(&region, 0, rkey)).expect("posted");
        assert_eq!(net.ended(0).1, WcStatus::Success, "{rkey:#x}");
    }
}

}
