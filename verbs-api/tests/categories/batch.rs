//! Batches (protocol.md 1.10): many requests and one doorbell.

use crate::net::{Net, nothing};
use verbs_api::{BatchError, Error, PostError, QueueCaps, RecvRequest, SendData, SendRequest, WcStatus};

on_every_lan! {

/// Everything of a batch is posted at its end, in order; the last one's completion speaks for all.
fn a_batch_is_posted_in_order(lan: Lan) {
    let mut net = Net::new(lan);
    for round in 0..10_u64 {
        let receives: Vec<_> = (0..16).map(|wr_id| RecvRequest { wr_id: 16 * round + wr_id, scatter: &[] }).collect();
        net.pairs[1].post_recv_batch(&receives).expect("room");
        let mut batch = net.pairs[0].batch();
        for number in 0..16 {
            let request = SendRequest::send(SendData::Inline(&[])).with_imm(number).id(round);
            batch.post_send(&if number == 15 { request.signaled() } else { request }).expect("room");
        }
        drop(batch);
        for number in 0..16 {
            let done = net.done(1);
            assert_eq!((done.wr_id, u64::from(done.imm)), (16 * round + number, number));
        }
        assert_eq!(net.ended(0), (round, WcStatus::Success));
    }
    assert_eq!(net.pairs[0].outstanding(), 0);
}

/// What is refused in a batch is not posted, what stands before it is; of receives the error says
/// how many.
fn what_is_refused_ends_a_batch_of_receives(lan: Lan) {
    let caps = QueueCaps { max_send_wr: 4, max_recv_wr: 4, ..QueueCaps::default() };
    let mut net = Net::with(lan, |_, builder| builder.caps(caps));
    let receives: Vec<_> = (0..5).map(|wr_id| RecvRequest { wr_id, scatter: &[] }).collect();
    let refused = net.pairs[1].post_recv_batch(&receives).expect_err("four fit");
    let full = PostError::QueueFull { capacity: 4 };
    assert!(matches!(refused, Error::Batch(BatchError { posted: 4, source }) if source == full), "{refused}");
    let mut batch = net.pairs[0].batch();
    for wr_id in 0..4 {
        batch.post_send(&nothing().id(wr_id)).expect("four fit");
    }
    assert!(matches!(batch.post_send(&nothing()), Err(Error::Post(PostError::QueueFull { capacity: 4 }))));
    drop(batch);
    for wr_id in 0..4 {
        assert_eq!((net.ended(1), net.ended(0)), ((wr_id, WcStatus::Success), (wr_id, WcStatus::Success)));
    }
    net.post(0, &nothing().id(9));
    net.receive(1, 8, &[]);
    assert_eq!((net.ended(1), net.ended(0)), ((8, WcStatus::Success), (9, WcStatus::Success)));
}

/// Receives of a batch are there when it ends, those before a refused one, too.
fn a_batch_of_receives_is_posted_at_its_end(lan: Lan) {
    let caps = QueueCaps { max_send_wr: 4, max_recv_wr: 4, ..QueueCaps::default() };
    let mut net = Net::with(lan, |_, builder| builder.caps(caps));
    for round in 0..3 {
        let mut batch = net.pairs[1].recv_batch();
        for wr_id in 0..4 {
            batch.post_recv(&RecvRequest { wr_id: 4 * round + wr_id, scatter: &[] }).expect("four fit");
        }
        let refused = batch.post_recv(&RecvRequest { wr_id: 99, scatter: &[] });
        assert!(matches!(refused, Err(Error::Post(PostError::QueueFull { capacity: 4 }))), "{refused:?}");
        drop(batch);
        for wr_id in 4 * round..4 * (round + 1) {
            net.post(0, &nothing().id(wr_id));
            assert_eq!((net.ended(1), net.ended(0)), ((wr_id, WcStatus::Success), (wr_id, WcStatus::Success)));
        }
    }
}

}
