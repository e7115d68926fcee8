//! Reliable connections that go wrong: bad keys are in `memory.rs` and `window.rs`; here are
//! alignment, lengths, missing receives, rights of the queue pair, and the order of what is flushed
//! (protocol.md 1.5, 1.6, 1.9, 2.4).

use crate::host::complete;
use crate::net::{ALL, Net, bytes, nothing, pattern, usual, whole};
use verbs_api::{Access, AsyncEvent, Driver, QpState, RemoteAddr, SendData, SendRequest, Sge, WcStatus};

on_every_lan! {

/// 1.4: an atomic's address is a multiple of eight, else "invalid request".
fn a_misaligned_atomic_is_an_invalid_request(lan: Lan) {
    let mut net = Net::new(lan);
    let word = net.hosts[1].pd.register(32, ALL).expect("memory");
    let result = net.hosts[0].region(8);
    let into = result.slice(..).expect("all");
    for offset in [1, 4, 7] {
        net.post(0, &SendRequest::fetch_and_add(into, word.remote().at(offset), 1).id(offset));
        assert_eq!(net.ended(0), (offset, WcStatus::RemInvReqErr));
        net.both_fail();
        net.reconnect();
    }
    assert_eq!(bytes(&word), [0; 32]);
    net.post(0, &SendRequest::compare_and_swap(into, word.remote().at(8), 0, 5).signaled());
    assert_eq!(net.ended(0).1, WcStatus::Success);
    assert_eq!(word.load_acquire_u64(8).expect("aligned"), 5);
}

/// 1.6: a receive that is too short is "local length error" there, and "remote invalid request" to
/// the sender.
fn a_receive_that_is_too_short_ends_both(lan: Lan) {
    let mut net = Net::new(lan);
    let buffer = net.hosts[1].region(7);
    net.receive(1, 1, &whole(&buffer));
    net.post(0, &SendRequest::send(SendData::Inline(&[9; 8])).id(2));
    assert_eq!(net.ended(1), (1, WcStatus::LocLenErr));
    assert_eq!(net.ended(0), (2, WcStatus::RemInvReqErr));
    net.both_fail();
}

/// 1.6: a local key that opens nothing is a local protection error, of every operation, whatever
/// else is wrong with the request, signaled or not; the peer hears nothing that ends it.
fn a_bad_local_key_ends_the_request_here(lan: Lan) {
    let mut net = Net::new(lan);
    let word = net.hosts[1].pd.register(16, ALL).expect("memory");
    let bad = Sge { lkey: 0xDEAD_BEEF, ..net.hosts[0].region(8).slice(..).expect("all of it") };
    let (into, good) = ([bad], word.remote().at(0));
    for at in [good, word.remote().at(1), RemoteAddr { rkey: good.rkey ^ 1, ..good }] {
        for request in [
            SendRequest::send(SendData::Gather(&into)),
            SendRequest::write(SendData::Gather(&into), at),
            SendRequest::write(SendData::Gather(&into), at).with_imm(1).signaled(),
            SendRequest::read(&into, at),
            SendRequest::fetch_and_add(bad, at, 1),
            SendRequest::compare_and_swap(bad, at, 0, 1).signaled(),
        ] {
            net.reconnect();
            net.receive(1, 1, &[]);
            net.post(0, &request.id(2));
            assert_eq!(net.ended(0), (2, WcStatus::LocProtErr), "{request:?}");
            assert_eq!((net.pairs[0].state(), net.pairs[1].state()), (QpState::Err, QpState::Rts), "{request:?}");
        }
    }
    assert_eq!(bytes(&word), [0; 16]);
}

/// 1.6: a receive that names memory that it may not is the receiver's error, and the sender hears
/// of one.
fn a_bad_receive_ends_both(lan: Lan) {
    let mut net = Net::new(lan);
    let gone = net.hosts[1].region(64).slice(..).expect("all of it");
    let elsewhere = net.hosts[1].device.alloc_pd().register(64, ALL).expect("memory");
    let read_only = net.hosts[1].pd.register(64, Access::empty()).expect("memory");
    let short = net.hosts[1].region(64);
    let beyond = Sge { length: 128, ..short.slice(..).expect("all of it") };
    for into in [gone, whole(&elsewhere)[0], whole(&read_only)[0], Sge { addr: short.addr() + 60, ..beyond }] {
        net.reconnect();
        net.receive(1, 1, &[into]);
        net.post(0, &SendRequest::send(SendData::Inline(&[9; 8])).id(2));
        assert_eq!([net.ended(1), net.ended(0)], [(1, WcStatus::LocProtErr), (2, WcStatus::RemOpErr)], "{into:?}");
        net.both_fail();
    }
    assert_eq!([bytes(&elsewhere), bytes(&read_only)].concat(), [0; 128]);
}

/// 1.5: a WRITE with immediate waits for a receive as a SEND does, one without needs none; a SEND
/// with invalidate too.
fn only_what_takes_a_receive_waits_for_one(lan: Lan) {
    let mut net = Net::with(lan, |_, builder| builder.min_rnr_timer(1));
    let target = net.hosts[1].region(8);
    let at = target.remote().at(0);
    net.post(0, &SendRequest::write(SendData::Inline(&[1; 8]), at).id(1).signaled());
    assert_eq!(net.ended(0), (1, WcStatus::Success));
    net.post(0, &SendRequest::write(SendData::Inline(&[2; 8]), at).with_imm(3).id(2).signaled());
    net.sees(1, "an RNR NAK", |counters| counters.tx_rnr_naks > 0);
    assert_eq!(net.hosts[1].cq.poll(), None);
    net.receive(1, 4, &[]);
    let taken = net.done(1);
    assert_eq!((taken.wr_id, taken.imm, bytes(&target)), (4, 3, vec![2; 8]));
    assert_eq!(net.ended(0), (2, WcStatus::Success));
}

/// 1.9: a peer that is not ready to receive hears nothing, and is given up.
fn a_peer_that_is_not_ready_is_given_up(lan: Lan) {
    let hosts = lan.hosts();
    let [early, late] = hosts.each_ref().map(|host| usual(host).timeout(10).retry_cnt(1).build().expect("a queue pair"));
    let [mine, its] = [early.endpoint(), late.endpoint()];
    let mut net_host = hosts;
    let mut pair = early.connect(&its).expect("connected");
    let word = net_host[1].pd.register(8, ALL).expect("memory");
    let result = net_host[0].region(8);
    pair.post_send(&SendRequest::fetch_and_add(whole(&result)[0], word.remote().at(0), 1).id(1)).expect("posted");
    let [one, two] = &mut net_host;
    let done = complete(one, two);
    assert_eq!((done.wr_id, done.status, bytes(&word)), (1, WcStatus::RetryExcErr, vec![0; 8]));
    // One in INIT has no peer yet.
    assert!(two.device.counters().drop_address > 0);
    late.connect(&mine).expect("as if nothing had been");
}

/// 1.6: what the queue pair does not permit is refused, whatever the region permits.
fn a_queue_pair_permits_what_its_flags_say(lan: Lan) {
    for granted in [Access::LOCAL_WRITE, Access::LOCAL_WRITE | Access::REMOTE_READ] {
        for which in 0..3 {
            let mut net = Net::with(lan, |_, builder| builder.access(granted));
            let region = net.hosts[1].pd.register(64, ALL).expect("memory");
            let result = net.hosts[0].region(8);
            let (into, at) = (whole(&result), region.remote().at(0));
            let request = match which {
                0 => SendRequest::read(&into, at),
                1 => SendRequest::write(SendData::Inline(&[1; 8]), at),
                _ => SendRequest::fetch_and_add(into[0], at, 1),
            };
            net.post(0, &request.signaled());
            let permitted = which == 0 && granted.contains(Access::REMOTE_READ);
            let expected = if permitted { WcStatus::Success } else { WcStatus::RemInvReqErr };
            assert_eq!(net.ended(0).1, expected, "{which} of {granted:?}");
            assert_eq!(bytes(&region), [0; 64]);
        }
    }
}

/// 1.5, 1.6: without a receive a SEND waits as often as it may, and no longer.
fn a_sender_waits_for_a_receive_as_often_as_it_may(lan: Lan) {
    // Where whoever polls drives both ends in turn, no timer comes between a packet and its answer;
    // elsewhere an RNR NAK may answer a probe that was on its way.
    let exact = lan.driver == Driver::Inline && lan.wire == crate::lan::Wire::Sim;
    for rnr_retry in [0, 1, 3] {
        let mut net = Net::with(lan, |_, builder| builder.rnr_retry(rnr_retry).min_rnr_timer(1));
        net.post(0, &SendRequest::send(SendData::Inline(&[])).id(3));
        // Answered before the sender looks at its timers.
        net.hosts[1].device.progress();
        assert_eq!(net.ended(0), (3, WcStatus::RnrRetryExcErr));
        let [sender, receiver] = net.hosts.each_ref().map(|host| host.device.counters());
        let tries = u64::from(rnr_retry) + 1;
        assert!(sender.rx_rnr_naks >= tries, "{rnr_retry}: {sender:?}");
        if exact {
            assert_eq!((sender.rx_rnr_naks, receiver.tx_rnr_naks), (tries, tries), "{rnr_retry}");
            assert_eq!((sender.retry_exceeded, sender.rto_fired), (0, 0), "the peer has answered");
        }
        assert_eq!(net.event(0), AsyncEvent::QpFatal { qpn: net.pairs[0].qpn() });
        assert_eq!(net.pairs[1].state(), QpState::Rts, "the receiver lives on");
    }

    let mut net = Net::with(lan, |_, builder| builder.rnr_retry(7).min_rnr_timer(1));
    net.post(0, &nothing().id(4));
    net.sees(1, "many refusals", |counters| counters.tx_rnr_naks >= 10);
    net.receive(1, 5, &[]);
    assert_eq!([net.ended(1), net.ended(0)], [(5, WcStatus::Success), (4, WcStatus::Success)]);
}

/// 1.9: the request that failed comes first with what it failed of, what is behind it is flushed in
/// order; and so are the receives, of both sides.
fn what_is_behind_a_failure_is_flushed_in_order(lan: Lan) {
    let mut net = Net::new(lan);
    let target = net.hosts[1].region(64);
    let (good, bad) = (target.remote().at(0), target.remote().at(60));
    for side in [0, 1] {
        for wr_id in 100..103 {
            net.receive(side, wr_id, &[]);
        }
    }
    let mut batch = net.pairs[0].batch();
    batch.post_send(&SendRequest::write(SendData::Inline(&[1; 8]), good).id(0).signaled()).expect("posted");
    batch.post_send(&SendRequest::write(SendData::Inline(&[2; 8]), bad).id(1)).expect("posted");
    for wr_id in 2..6 {
        batch.post_send(&SendRequest::write(SendData::Inline(&[3; 8]), good).id(wr_id)).expect("posted");
    }
    drop(batch);
    assert_eq!(net.ended(0), (0, WcStatus::Success));
    assert_eq!(net.ended(0), (1, WcStatus::RemAccessErr));
    let mut flushed: Vec<_> = (0..7).map(|_| net.ended(0)).collect();
    assert!(flushed.iter().all(|(_, status)| *status == WcStatus::WrFlushErr), "{flushed:?}");
    let sends: Vec<u64> = flushed.iter().map(|(wr_id, _)| *wr_id).filter(|wr_id| *wr_id < 100).collect();
    flushed.retain(|(wr_id, _)| *wr_id >= 100);
    assert_eq!((sends, flushed.len()), (vec![2, 3, 4, 5], 3));
    for wr_id in 100..103 {
        assert_eq!(net.ended(1), (wr_id, WcStatus::WrFlushErr));
    }
    assert_eq!(bytes(&target)[..8], [1; 8], "nothing behind the failure took effect");
    for side in [0, 1] {
        let qpn = net.pairs[side].qpn();
        let why = [AsyncEvent::QpFatal { qpn }, AsyncEvent::QpAccessError { qpn }];
        assert_eq!(net.event(side), why[side]);
        net.pairs[side].post_recv(&verbs_api::RecvRequest { wr_id: 7, scatter: &[] }).expect("ERR takes it");
        assert_eq!(net.ended(side), (7, WcStatus::WrFlushErr));
    }
}

/// 1.6: more READs than the peer takes at once wait for their turn, and all bring what is there.
fn more_reads_than_fit_wait(lan: Lan) {
    let mut net = Net::with(lan, |_, builder| builder.max_rd_atomic(2).max_dest_rd_atomic(2));
    const LEN: usize = 20_000;
    let (source, target) = (net.hosts[1].pd.register(LEN, ALL).expect("memory"), net.hosts[0].region(LEN));
    source.write(0, &pattern(LEN)).expect("inside");
    for piece in 0..10 {
        let start = piece * LEN / 10;
        let into = [target.slice(start..start + LEN / 10).expect("inside")];
        net.post(0, &SendRequest::read(&into, source.remote().at(start as u64)).id(piece as u64).signaled());
    }
    for piece in 0..10 {
        assert_eq!(net.ended(0), (piece, WcStatus::Success));
    }
    assert!(bytes(&target) == pattern(LEN), "the bytes differ");
}

/// 1.6: where none may be under way, at either end, one ends the queue pair.
fn a_read_where_there_may_be_none_ends_the_queue_pair(lan: Lan) {
    for side in [0, 1] {
        let mut net = Net::with(lan, |at, builder| match (at, side) {
            (0, 0) => builder.max_rd_atomic(0),
            (1, 1) => builder.max_dest_rd_atomic(0),
            _ => builder,
        });
        let (local, remote) = (net.hosts[0].region(8), net.hosts[1].pd.register(8, ALL).expect("memory"));
        net.post(0, &SendRequest::read(&whole(&local), remote.remote().at(0)));
        assert_eq!(net.ended(0).1, WcStatus::LocQpOpErr);
        assert_eq!(net.pairs[0].state(), QpState::Err);
    }
}

/// 1.6: a fence makes a WRITE wait for the READs before it, so that they bring what was there.
fn a_fence_waits_for_what_is_read(lan: Lan) {
    let mut net = Net::new(lan);
    let (source, target) = (net.hosts[1].pd.register(4096, ALL).expect("memory"), net.hosts[0].region(4096));
    for round in 0..20_u8 {
        source.write(0, &[round; 4096]).expect("inside");
        let into = whole(&target);
        net.post(0, &SendRequest::read(&into, source.remote().at(0)).id(1).signaled());
        net.post(
            0,
            &SendRequest::write(SendData::Inline(&[0xFF; 32]), source.remote().at(4064)).fenced().id(2).signaled(),
        );
        assert_eq!([net.ended(0), net.ended(0)], [(1, WcStatus::Success), (2, WcStatus::Success)]);
        assert!(bytes(&target).iter().all(|byte| *byte == round), "round {round}");
    }
}

/// 2.4: a peer that is gone is given up after the tries that were allowed, and nothing before that
/// was lost.
fn a_peer_that_is_gone_is_given_up(lan: Lan) {
    let mut net = Net::with(lan, |_, builder| builder.timeout(10).retry_cnt(1));
    net.pairs[1].abort().expect("any state goes to ERR");
    net.post(0, &SendRequest::send(SendData::Inline(&[])).id(1));
    net.post(0, &SendRequest::send(SendData::Inline(&[])).id(2));
    assert_eq!(net.ended(0), (1, WcStatus::RetryExcErr));
    assert_eq!(net.ended(0), (2, WcStatus::WrFlushErr));
}

}

/// Each status says what to look at: the two that tell apart whether the queue pair or the region
/// refuses, above all.
#[test]
fn a_status_names_what_refuses() {
    for (status, named) in [
        (WcStatus::RemInvReqErr, "QueuePairBuilder::access"),
        (WcStatus::RemAccessErr, "region or window"),
        (WcStatus::LocAccessErr, "region or window"),
        (WcStatus::LocQpOpErr, "max_rd_atomic"),
    ] {
        assert!(status.to_string().contains(named), "{status}");
    }
}
