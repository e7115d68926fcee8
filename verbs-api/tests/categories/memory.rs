//! Protection domains and memory regions (protocol.md 1.4, 1.6, 1.11).

use crate::net::{ALL, Net, bytes, pattern, whole};
use verbs_api::{Access, QpState, RemoteAddr, SendData, SendRequest, WcStatus};

on_every_lan! {

/// 1.6: a key of another protection domain is "remote access error", and both queue pairs end.
fn a_peer_does_not_reach_another_domain(lan: Lan) {
    let mut net = Net::new(lan);
    let elsewhere = net.hosts[1].device.alloc_pd();
    let region = elsewhere.register(64, ALL).expect("memory");
    let result = net.hosts[0].region(8);
    for which in 0..3 {
        let (into, at) = (whole(&result), region.remote().at(0));
        let request = match which {
            0 => SendRequest::write(SendData::Inline(&[1; 8]), at),
            1 => SendRequest::read(&into, at),
            _ => SendRequest::fetch_and_add(into[0], at, 1),
        };
        net.post(0, &request.id(which));
        assert_eq!(net.ended(0), (which, WcStatus::RemAccessErr));
        net.both_fail();
        net.reconnect();
    }
    assert_eq!(bytes(&region), [0; 64]);
}

/// 1.6: a local key of another domain is a local protection error; the peer hears nothing of it.
fn a_request_does_not_reach_another_domain(lan: Lan) {
    let mut net = Net::new(lan);
    let elsewhere = net.hosts[0].device.alloc_pd();
    let source = elsewhere.register(64, ALL).expect("memory");
    let target = net.hosts[1].region(64);
    let gather = whole(&source);
    net.post(0, &SendRequest::write(SendData::Gather(&gather), target.remote().at(0)).id(1));
    assert_eq!(net.ended(0), (1, WcStatus::LocProtErr));
    assert_eq!((net.pairs[0].state(), net.pairs[1].state()), (QpState::Err, QpState::Rts));
    assert_eq!(bytes(&target), [0; 64]);
}

/// 1.11: each right is needed for its operation and gives no other.
fn a_region_permits_what_its_flags_say(lan: Lan) {
    let mut net = Net::new(lan);
    let result = net.hosts[0].region(8);
    for granted in [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC] {
        let region = net.hosts[1].pd.register(64, Access::LOCAL_WRITE | granted).expect("memory");
        for needed in [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC] {
            let (into, at) = (whole(&result), region.remote().at(8));
            let request = match needed {
                Access::REMOTE_WRITE => SendRequest::write(SendData::Inline(&[1; 8]), at),
                Access::REMOTE_READ => SendRequest::read(&into, at),
                _ => SendRequest::fetch_and_add(into[0], at, 1),
            };
            net.post(0, &request.signaled());
            let expected = if granted == needed { WcStatus::Success } else { WcStatus::RemAccessErr };
            assert_eq!(net.ended(0).1, expected, "{needed:?} of {granted:?}");
            if granted != needed {
                net.reconnect();
            }
        }
    }
}

/// 1.11: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE.
fn what_peers_may_write_the_program_may_write(lan: Lan) {
    let [host, _peer] = lan.hosts();
    for access in [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
        let error = host.pd.register(8, access).err().expect("refused").to_string();
        assert!(error.contains("LOCAL_WRITE"), "{error}");
    }
    host.pd.register(8, Access::REMOTE_READ).expect("reading needs nothing");
}

/// 1.6: a range must lie in its region, and does not wrap around.
fn an_address_outside_is_refused_and_nothing_is_written(lan: Lan) {
    let mut net = Net::new(lan);
    let region = net.hosts[1].region(64);
    let RemoteAddr { addr, rkey } = region.remote().at(0);
    for addr in [addr + 57, addr + 64, addr - 1, addr - 8, 0, u64::MAX - 7, u64::MAX - 3] {
        net.post(0, &SendRequest::write(SendData::Inline(&[1; 8]), RemoteAddr { addr, rkey }).id(addr));
        assert_eq!(net.ended(0), (addr, WcStatus::RemAccessErr));
        net.reconnect();
    }
    assert_eq!(bytes(&region), [0; 64]);
    net.post(0, &SendRequest::write(SendData::Inline(&[1; 8]), region.remote().at(56)).signaled());
    assert_eq!(net.ended(0).1, WcStatus::Success, "the last eight are inside");
}

/// 1.4: with a length of 0 neither address nor key is looked at.
fn nothing_at_all_needs_no_key(lan: Lan) {
    let mut net = Net::new(lan);
    let nowhere = RemoteAddr { addr: 0xDEAD, rkey: 0xBEEF };
    net.post(0, &SendRequest::write(SendData::Inline(&[]), nowhere).id(1).signaled());
    net.post(0, &SendRequest::read(&[], nowhere).id(2).signaled());
    assert_eq!([net.ended(0), net.ended(0)], [(1, WcStatus::Success), (2, WcStatus::Success)]);
}

/// 1.11: a key ends with its region, and the next region has another.
fn a_key_ends_with_its_region(lan: Lan) {
    let mut net = Net::new(lan);
    for round in 0..10 {
        let region = net.hosts[1].region(64);
        let to = region.remote().at(0);
        net.post(0, &SendRequest::write(SendData::Inline(&[1]), to).signaled());
        assert_eq!(net.ended(0).1, WcStatus::Success);
        drop(region);
        let next = net.hosts[1].region(64);
        assert_ne!(next.rkey(), to.rkey);
        net.post(0, &SendRequest::write(SendData::Inline(&[1]), to).id(round));
        assert_eq!(net.ended(0), (round, WcStatus::RemAccessErr));
        assert_eq!(bytes(&next), [0; 64]);
        net.reconnect();
    }
}

/// 1.6: what a READ or a receive may not write is a local protection error.
fn a_read_only_region_takes_nothing(lan: Lan) {
    let mut net = Net::new(lan);
    let source = net.hosts[1].pd.register(64, Access::REMOTE_READ).expect("memory");
    let read_only = net.hosts[0].pd.register(64, Access::empty()).expect("memory");
    let into = whole(&read_only);
    net.post(0, &SendRequest::read(&into, source.remote().at(0)).id(3));
    assert_eq!(net.ended(0), (3, WcStatus::LocProtErr));
    assert_eq!(bytes(&read_only), [0; 64]);
    // But it can be sent.
    net.reconnect();
    let target = net.hosts[1].region(64);
    net.post(0, &SendRequest::write(SendData::Gather(&into), target.remote().at(0)).signaled());
    assert_eq!(net.ended(0).1, WcStatus::Success);
}

/// 1.3: every length around packet boundaries, gathered from and scattered to several pieces, byte
/// by byte.
fn every_byte_of_every_length_arrives(lan: Lan) {
    let mut net = Net::new(lan);
    let pmtu = usize::try_from(net.pairs[0].path_mtu().bytes()).expect("small");
    let longest = 3 * pmtu + 7;
    let (source, target) = (net.hosts[0].region(longest), net.hosts[1].region(longest + 16));
    source.write(0, &pattern(longest)).expect("inside");
    for len in [1, 63, 64, 65, pmtu - 1, pmtu, pmtu + 1, 2 * pmtu, longest] {
        target.write(0, &vec![0xEE; target.len()]).expect("inside");
        let cut = len / 3;
        let gather = [source.slice(..cut).expect("inside"), source.slice(cut..len).expect("inside")];
        let into = [target.slice(8..8 + len / 2).expect("inside"), target.slice(8 + len / 2..8 + len).expect("inside")];
        net.receive(1, 1, &into);
        net.post(0, &SendRequest::send(SendData::Gather(&gather)).signaled());
        let received = net.done(1);
        assert_eq!((received.status, received.byte_len as usize), (WcStatus::Success, len));
        assert_eq!(net.ended(0).1, WcStatus::Success);
        let found = bytes(&target);
        assert!(found[8..8 + len] == pattern(len)[..], "{len} bytes differ");
        assert!(found[..8].iter().chain(&found[8 + len..]).all(|byte| *byte == 0xEE), "{len}: beside");
    }
}

}
