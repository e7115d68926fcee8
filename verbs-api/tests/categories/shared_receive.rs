//! Shared receive queues (protocol.md 1.11, 2.5).

use crate::net::{Net, bytes, connect, nothing, usual, whole};
use verbs_api::{
    AsyncEvent, PostError, QueuePair, RecvRequest, SendData, SendRequest, SharedReceiveQueue, SrqCaps,
    WcStatus,
};

/// Connections whose second ends share a queue of eight receives, posted as 0 to 7.
fn sharing(net: &Net, count: usize) -> (SharedReceiveQueue, Vec<[QueuePair; 2]>) {
    let srq = net.hosts[1].pd.create_srq(SrqCaps { max_wr: 8, max_sge: 1 });
    let mut srq = srq.expect("a shared queue");
    for wr_id in 0..8 {
        srq.post_recv(&RecvRequest { wr_id, scatter: &[] }).expect("eight fit");
    }
    let with_srq = |side, builder: verbs_api::QueuePairBuilder| {
        if side == 1 { builder.srq(&srq) } else { builder }
    };
    let pairs = (0..count).map(|_| connect(&net.hosts, with_srq)).collect();
    (srq, pairs)
}

on_every_lan! {

/// Receives are taken in the order of posting, whoever needs them, and the queue is bounded.
fn queue_pairs_take_receives_in_order(lan: Lan) {
    let mut net = Net::new(lan);
    let (mut srq, mut pairs) = sharing(&net, 3);
    let full = srq.post_recv(&RecvRequest { wr_id: 8, scatter: &[] }).expect_err("it is full");
    assert!(matches!(full, verbs_api::Error::Post(PostError::QueueFull { capacity: 8 })), "{full}");
    for wr_id in 0..8 {
        let [sender, receiver] = &mut pairs[wr_id % 3];
        sender.post_send(&nothing()).expect("posted");
        let qpn = receiver.qpn();
        let done = net.done(1);
        assert_eq!((done.wr_id, done.qpn, done.status), (wr_id as u64, qpn, WcStatus::Success));
        assert_eq!(net.ended(0).1, WcStatus::Success);
    }
    assert_eq!(srq.query().available, 0);
    srq.post_recv(&RecvRequest { wr_id: 9, scatter: &[] }).expect("there is room again");
}

/// The limit is told of once, when the stock falls below it, and is disarmed then.
fn the_limit_is_told_of_once(lan: Lan) {
    let mut net = Net::new(lan);
    let (srq, mut pairs) = sharing(&net, 1);
    srq.arm_limit(4).expect("armed");
    for wr_id in 0..7 {
        pairs[0][0].post_send(&nothing()).expect("posted");
        assert_eq!((net.ended(1), net.ended(0).1), ((wr_id, WcStatus::Success), WcStatus::Success));
        let expected = (wr_id == 4).then(|| AsyncEvent::SrqLimit { srq: srq.number() });
        assert_eq!(net.hosts[1].device.poll_event(), expected, "{} are left", 7 - wr_id);
    }
    assert_eq!(srq.query().limit, 0);
}

/// A limit above what is left is told of at once, and one above what it has room for is refused.
fn a_limit_is_within_the_capacity(lan: Lan) {
    let net = Net::new(lan);
    let srq = net.hosts[1].pd.create_srq(SrqCaps { max_wr: 8, max_sge: 1 }).expect("a shared queue");
    let room = srq.query().caps.max_wr;
    srq.arm_limit(room).expect("armed");
    assert_eq!(net.event(1), AsyncEvent::SrqLimit { srq: srq.number() });
    assert!(srq.arm_limit(room + 1).is_err());
}

/// 1.6: without a receive the sender waits, and goes on as soon as there is one.
fn an_empty_queue_makes_senders_wait(lan: Lan) {
    let mut net = Net::new(lan);
    let (mut srq, mut pairs) = sharing(&net, 1);
    for _ in 0..9 {
        pairs[0][0].post_send(&nothing()).expect("posted");
    }
    for wr_id in 0..8 {
        assert_eq!(net.ended(1), (wr_id, WcStatus::Success));
    }
    net.sees(1, "an RNR NAK", |counters| counters.tx_rnr_naks > 0);
    srq.post_recv(&RecvRequest { wr_id: 100, scatter: &[] }).expect("room");
    assert_eq!(net.ended(1), (100, WcStatus::Success));
}

/// A queue pair in ERR takes no more receives, and says when it has taken its last; the stock is
/// the others'.
fn a_queue_pair_that_fails_leaves_the_stock_to_others(lan: Lan) {
    let mut net = Net::new(lan);
    let (srq, mut pairs) = sharing(&net, 2);
    pairs[0][1].abort().expect("any state goes to ERR");
    assert_eq!(net.event(1), AsyncEvent::LastWqeReached { qpn: pairs[0][1].qpn() });
    assert_eq!(srq.query().available, 8);
    pairs[1][0].post_send(&nothing()).expect("posted");
    assert_eq!(net.ended(1), (0, WcStatus::Success));
}

/// 1.11: WRITEs with immediate of many peers take receives of the one queue, those without none.
fn writes_with_immediate_take_receives_too(lan: Lan) {
    let mut net = Net::new(lan);
    let (_srq, mut pairs) = sharing(&net, 2);
    let target = net.hosts[1].region(16);
    for number in 0..8_u32 {
        let [sender, receiver] = &mut pairs[number as usize % 2];
        let (at, data) = (target.remote().at(8), [number.to_le_bytes()[0]; 8]);
        sender.post_send(&SendRequest::write(SendData::Inline(&data), target.remote().at(0))).expect("posted");
        sender.post_send(&SendRequest::write(SendData::Inline(&data), at).with_imm(number)).expect("posted");
        let qpn = receiver.qpn();
        let done = net.done(1);
        assert_eq!((done.wr_id, done.imm, done.qpn), (number.into(), number, qpn));
        assert_eq!(bytes(&target), [data, data].concat());
    }
}

/// 1.6: the receives name memory of the shared queue's domain; sizes are those asked for, and
/// within the device's.
fn a_shared_queue_has_its_domain_and_its_sizes(lan: Lan) {
    let mut net = Net::new(lan);
    let elsewhere = net.hosts[1].device.alloc_pd();
    let mut srq = elsewhere.create_srq(SrqCaps { max_wr: 4, max_sge: 1 }).expect("a shared queue");
    let mine = elsewhere.register(8, crate::net::ALL).expect("memory");
    let [sge] = whole(&mine);
    let refused = srq.post_recv(&RecvRequest { wr_id: 1, scatter: &[sge, sge] }).expect_err("one fits");
    assert!(matches!(refused, verbs_api::Error::Post(PostError::TooManySges { given: 2, max: 1 })), "{refused}");
    // A region of the queue pairs' own domain is not the queue's.
    for (sge, ends) in [
        (sge, [WcStatus::Success; 2]),
        (whole(&net.hosts[1].region(8))[0], [WcStatus::LocProtErr, WcStatus::RemOpErr]),
    ] {
        let [mut sender, _receiver] =
            connect(&net.hosts, |side, builder| if side == 1 { builder.srq(&srq) } else { builder });
        srq.post_recv(&RecvRequest { wr_id: 2, scatter: &[sge] }).expect("room");
        sender.post_send(&SendRequest::send(SendData::Inline(&[5; 8])).id(3).signaled()).expect("posted");
        assert_eq!([net.ended(1), net.ended(0)], [(2, ends[0]), (3, ends[1])]);
    }
    assert_eq!(bytes(&mine), [5; 8]);
    let most = net.hosts[1].device.query();
    for (caps, what) in [
        (SrqCaps { max_wr: most.max_srq_wr + 1, max_sge: 1 }, "max_wr"),
        (SrqCaps { max_wr: 0, max_sge: 1 }, "max_wr"),
        (SrqCaps { max_wr: 1, max_sge: most.max_sge + 1 }, "max_sge"),
    ] {
        let refused = elsewhere.create_srq(caps).err().expect("out of range").to_string();
        assert!(refused.contains(what) && refused.contains("must be between"), "{refused}");
    }
}

/// A queue pair with a shared queue has none of its own.
fn receives_are_posted_to_the_shared_queue_only(lan: Lan) {
    let net = Net::new(lan);
    let (srq, _pairs) = sharing(&net, 0);
    let mut pair = usual(&net.hosts[1]).srq(&srq).build().expect("a queue pair");
    let refused = pair.post_recv(&RecvRequest { wr_id: 0, scatter: &[] }).expect_err("refused");
    assert!(matches!(refused, verbs_api::Error::Post(PostError::NoReceiveQueue)), "{refused}");
}

}
