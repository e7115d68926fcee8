//! Buffers at their bounds: one byte beside a region or a window, and nothing at all, for every
//! operation (protocol.md 1.4, 1.6, 1.11).

use crate::net::{ALL, Net, bytes, whole};
use verbs_api::{Access, Error, MemoryRegion, RemoteAddr, SendData, SendRequest, Sge, WcStatus, WindowType};

/// What a peer can do with eight bytes of memory.
fn operations(result: Sge, into: &[Sge], at: RemoteAddr) -> [SendRequest<'_>; 5] {
    [
        SendRequest::write(SendData::Inline(&[7; 8]), at),
        SendRequest::write(SendData::Inline(&[7; 8]), at).with_imm(1),
        SendRequest::read(into, at),
        SendRequest::fetch_and_add(result, at, 1),
        SendRequest::compare_and_swap(result, at, 0, 1),
    ]
}

/// Every operation on eight bytes at `at` is refused, and leaves memory alone.
fn assert_closed(net: &mut Net, region: &MemoryRegion, at: RemoteAddr) {
    let result = net.hosts[0].region(8);
    let into = whole(&result);
    let before = bytes(region);
    for (number, request) in operations(into[0], &into, at).into_iter().enumerate() {
        net.reconnect();
        net.receive(1, 1, &[]);
        net.post(0, &request.id(2));
        assert_eq!(net.ended(0), (2, WcStatus::RemAccessErr), "{request:?}");
        // A WRITE with immediate is what its receive ends with.
        let end = if number == 1 { WcStatus::LocAccessErr } else { WcStatus::WrFlushErr };
        assert_eq!(net.ended(1), (1, end), "{request:?}");
        assert_eq!((bytes(&result), bytes(region)), (vec![0; 8], before.clone()), "{request:?}");
    }
}

/// What a window opens of a region.
fn bind(net: &mut Net, kind: WindowType, region: &MemoryRegion) -> (verbs_api::MemoryWindow, u32) {
    net.reconnect();
    let mut window = net.hosts[1].pd.alloc_window(kind).expect("a window");
    let rights = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let rkey = window.bind(&mut net.pairs[1], 9, region, 64..128, rights).expect("posted");
    assert_eq!(net.ended(1), (9, WcStatus::Success));
    (window, rkey)
}

on_every_lan! {

/// One word before a region and one behind it.
fn a_region_ends_where_it_ends(lan: Lan) {
    let mut net = Net::new(lan);
    let region = net.hosts[1].pd.register(64, ALL).expect("memory");
    let RemoteAddr { addr, rkey } = region.remote().at(0);
    for addr in [addr - 8, addr + 64] {
        assert_closed(&mut net, &region, RemoteAddr { addr, rkey });
    }
}

/// A window of either type in the middle of a region ends where it ends.
fn a_window_ends_where_it_ends(lan: Lan) {
    let mut net = Net::new(lan);
    let region = net.hosts[1].pd.register(256, ALL | Access::MW_BIND).expect("memory");
    for offset in [56, 128] {
        let (_window, rkey) = bind(&mut net, WindowType::One, &region);
        assert_closed(&mut net, &region, RemoteAddr { addr: region.addr() + offset, rkey });
    }
    // A window of type 2 is its queue pair's, and ends with it.
    for (offset, closed) in [(56, true), (64, false), (120, false), (128, true)] {
        let (_window, rkey) = bind(&mut net, WindowType::Two, &region);
        let result = net.hosts[0].region(8);
        let into = whole(&result);
        let at = RemoteAddr { addr: region.addr() + offset, rkey };
        net.post(0, &SendRequest::read(&into, at).signaled());
        let expected = if closed { WcStatus::RemAccessErr } else { WcStatus::Success };
        assert_eq!(net.ended(0).1, expected, "{offset}");
    }
}

/// 1.4: without a byte there is nothing to check, neither here nor there; a region of none is a
/// region.
fn nothing_at_all_goes_anywhere(lan: Lan) {
    let mut net = Net::new(lan);
    let [ours, theirs] = net.hosts.each_ref().map(|host| host.pd.register(0, ALL).expect("memory of no bytes"));
    assert!(ours.is_empty());
    let beside = net.hosts[1].pd.register(256, ALL | Access::MW_BIND).expect("memory");
    let (_window, rkey) = bind(&mut net, WindowType::One, &beside);
    let none = [ours.slice(..).expect("all of it")];
    let gone = [Sge { addr: 0xDEAD, length: 0, lkey: 0xBEEF }];
    let places = [
        theirs.remote().at(0),
        theirs.remote().at(100),
        beside.remote().at(256),
        beside.remote().at(1 << 40),
        RemoteAddr { addr: beside.addr() + 200, rkey },
        RemoteAddr { addr: 0, rkey: 0 },
    ];
    for data in [SendData::Gather(&none), SendData::Gather(&gone), SendData::Gather(&[])] {
        net.receive(1, 1, &none);
        net.post(0, &SendRequest::send(data).id(2).signaled());
        let received = net.done(1);
        assert_eq!((received.wr_id, received.status, received.byte_len), (1, WcStatus::Success, 0));
        assert_eq!(net.ended(0), (2, WcStatus::Success));
        for at in places {
            net.post(0, &SendRequest::write(data, at).id(3).signaled());
            assert_eq!(net.ended(0), (3, WcStatus::Success), "{data:?} to {at:?}");
        }
    }
    for into in [&none[..], &[]] {
        for at in places {
            net.post(0, &SendRequest::read(into, at).id(4).signaled());
            assert_eq!(net.ended(0), (4, WcStatus::Success), "{into:?} from {at:?}");
        }
    }
}

/// 1.11: what is bound lies in its region, and a window of no bytes shows none.
fn a_binding_lies_in_its_region(lan: Lan) {
    let mut net = Net::new(lan);
    let region = net.hosts[1].pd.register(64, ALL | Access::MW_BIND).expect("memory");
    let mut window = net.hosts[1].pd.alloc_window(WindowType::One).expect("a window");
    let unbound = window.rkey();
    for range in [60..65, 65..66, 64..usize::MAX] {
        let refused = window.bind(&mut net.pairs[1], 1, &region, range, Access::REMOTE_WRITE);
        assert!(matches!(refused, Err(Error::OutOfBounds { len: 64, .. })), "{refused:?}");
    }
    assert_eq!((window.rkey(), net.pairs[1].outstanding()), (unbound, 0), "nothing was posted");
    let rkey = window.bind(&mut net.pairs[1], 2, &region, 8..8, Access::REMOTE_WRITE).expect("posted");
    assert_eq!(net.ended(1), (2, WcStatus::Success));
    assert_closed(&mut net, &region, RemoteAddr { addr: region.addr() + 8, rkey });
}

/// 1.11: a window, its region and the queue pair are of one domain, and of one device.
fn a_binding_is_of_one_domain(lan: Lan) {
    let mut net = Net::new(lan);
    let elsewhere = net.hosts[1].device.alloc_pd();
    let rights = ALL | Access::MW_BIND;
    let (near, far) = (net.hosts[1].pd.register(64, rights).expect("memory"), elsewhere.register(64, rights).expect("memory"));
    for (domain, region) in [(&elsewhere, &near), (&net.hosts[1].pd.clone(), &far), (&elsewhere, &far)] {
        net.reconnect();
        let mut window = domain.alloc_window(WindowType::One).expect("a window");
        window.bind(&mut net.pairs[1], 1, region, .., Access::REMOTE_WRITE).expect("posted");
        assert_eq!(net.ended(1), (1, WcStatus::MwBindErr));
    }
    net.reconnect();
    let mut window = net.hosts[1].pd.alloc_window(WindowType::Two).expect("a window");
    let refused = window.bind(&mut net.pairs[0], 1, &near, .., Access::REMOTE_WRITE).expect_err("another device");
    assert!(matches!(refused, Error::OtherDevice { what: "queue pair" }), "{refused}");
    let refused = window.invalidate(&mut net.pairs[0], 1).expect_err("another device");
    assert!(matches!(refused, Error::OtherDevice { what: "queue pair" }), "{refused}");
}

}
