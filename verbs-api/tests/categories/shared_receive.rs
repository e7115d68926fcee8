//! Shared receive queues (protocol.md 1.11, 2.5).

use crate::net::{Net, connect, nothing, usual};
use verbs_api::{AsyncEvent, PostError, QueuePair, RecvRequest, SharedReceiveQueue, SrqCaps, WcStatus};

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

/// A queue pair in ERR takes no more receives, and says when it has taken its last; the stock is the others'.
fn a_queue_pair_that_fails_leaves_the_stock_to_others(lan: Lan) {
    let mut net = Net::new(lan);
    let (srq, mut pairs) = sharing(&net, 2);
    pairs[0][1].abort().expect("any state goes to ERR");
    assert_eq!(net.event(1), AsyncEvent::LastWqeReached { qpn: pairs[0][1].qpn() });
    assert_eq!(srq.query().available, 8);
    pairs[1][0].post_send(&nothing()).expect("posted");
    assert_eq!(net.ended(1), (0, WcStatus::Success));
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
