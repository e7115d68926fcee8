//! Whatever became of a queue pair, a request posted afterwards is seen.

use crate::common::rig::{Options, Rig, write};
use datapath::engine::QpHandles;
use datapath::qp::attr::{QpAttr, QpAttrMask};
use datapath::qp::state::QpState;
use datapath::queue::*;

/// A queue pair whose work waits behind a closed gate: the window is two packets, and nothing
/// reaches the peer.
fn stuck(attr: QpAttr) -> (Rig, [QpHandles; 2], Options) {
    let options = Options { window: 2, attr, ..Options::default() };
    let mut rig = Rig::new(1, 1024);
    let mut handles = rig.connect(&options);
    rig.drops = Box::new(|_, _| true);
    post(&rig, &mut handles, 8);
    rig.step();
    rig.step();
    assert_eq!(rig.sides[0].engine.core().counters().tx_requests, 2);
    (rig, handles, options)
}

fn post(rig: &Rig, handles: &mut [QpHandles; 2], count: u64) {
    let [a, b] = &rig.sides;
    for wr_id in 0..count {
        handles[0].send.post(&write(wr_id, &[a.sge(0, 64)], 0, b.key)).unwrap();
    }
}

fn statuses(rig: &mut Rig) -> Vec<WcStatus> {
    std::iter::from_fn(|| rig.sides[0].cq.poll()).map(|completion| completion.status).collect()
}

/// A queue pair that has sent everything goes to rest behind the turn. What is posted before that
/// rings no doorbell.
#[test]
fn what_is_posted_to_one_that_is_about_to_rest_is_seen() {
    let mut rig = Rig::new(1, 1024);
    let [mut a, _b] = rig.connect(&Options::default());
    let request = |rig: &Rig, wr_id| ([rig.sides[0].sge(0, 64)], rig.sides[1].key, wr_id);
    let post = |send: &mut SendQueue, (gather, key, wr_id): ([Sge; 1], _, u64)| {
        send.post(&write(wr_id, &gather, 0, key)).unwrap();
    };
    let (first, second) = (request(&rig, 0), request(&rig, 1));
    post(&mut a.send, first);
    let mut send = a.send;
    rig.sides[0].engine.port_mut().at_flush = Some(Box::new(move || post(&mut send, second)));
    assert_eq!(rig.sides[0].engine.turn(rig.now).sent, 1);
    assert!(rig.sides[0].engine.core().doorbells().is_empty(), "it was active");
    // No acknowledgement comes that could wake it.
    assert_eq!(rig.sides[0].engine.turn(rig.now).sent, 1);
    assert!(rig.run(10, |rig| rig.sides[0].cq.len() == 2));
    assert!(!rig.sides[0].engine.has_work());
}

#[test]
fn what_is_posted_after_the_last_retry_is_flushed() {
    let attr = QpAttr { timeout: 1, retry_cnt: 0, ..Options::default().attr };
    let (mut rig, mut handles, _) = stuck(attr);
    assert!(rig.run(100, |rig| rig.sides[0].cq.len() == 8));
    assert_eq!(handles[0].shared.state(), QpState::Err);
    let mut expected = vec![WcStatus::WrFlushErr; 8];
    expected[0] = WcStatus::RetryExcErr;
    assert_eq!(statuses(&mut rig), expected);
    for _ in 0..3 {
        post(&rig, &mut handles, 2);
        assert!(rig.run(3, |rig| rig.sides[0].cq.len() == 2), "posted to ERR, and never flushed");
        handles[0].recv.post(&RecvRequest { wr_id: 9, scatter: &[] }).unwrap();
        assert!(rig.run(3, |rig| rig.sides[0].cq.len() == 3), "posted to ERR, and never flushed");
        assert_eq!(statuses(&mut rig), [WcStatus::WrFlushErr; 3]);
    }
}

#[test]
fn patience_that_is_shortened_in_sqd_ends_sooner() {
    let (mut rig, handles, options) = stuck(Options::default().attr);
    rig.sides[0].force(handles[0].qpn, QpState::Sqd);
    let attr = QpAttr { timeout: 1, retry_cnt: 0, ..options.attr };
    rig.sides[0]
        .engine
        .core_mut()
        .modify_qp(handles[0].qpn, &attr, QpAttrMask::TIMEOUT | QpAttrMask::RETRY_CNT)
        .unwrap();
    let before = rig.now;
    assert!(rig.run(100, |rig| rig.sides[0].cq.len() == 8));
    assert!(rig.now.since(before) < 1_000_000, "the old timeout lasts half a second");
    assert_eq!(statuses(&mut rig)[0], WcStatus::RetryExcErr);
}

#[test]
fn a_queue_pair_forced_to_err_flushes_and_rings_once() {
    let (mut rig, mut handles, _) = stuck(Options::default().attr);
    rig.sides[0].force(handles[0].qpn, QpState::Err);
    post(&rig, &mut handles, 1);
    assert!(rig.run(3, |rig| rig.sides[0].cq.len() == 9));
    assert_eq!(statuses(&mut rig), [WcStatus::WrFlushErr; 9]);
}

#[test]
fn a_doorbell_under_way_when_its_queue_pair_fails_stays_the_only_one() {
    // The engine has room for one doorbell of its one queue pair: a second one fails an assertion
    // in the queue.
    let mut rig = Rig::new(1, 64);
    let mut handles = rig.connect(&Options::default());
    post(&rig, &mut handles, 1);
    rig.sides[0].force(handles[0].qpn, QpState::Err);
    post(&rig, &mut handles, 2);
    assert!(rig.run(3, |rig| rig.sides[0].cq.len() == 3));
    assert_eq!(rig.sides[0].engine.core().counters().doorbells, 1);
    post(&rig, &mut handles, 1);
    assert!(rig.run(3, |rig| rig.sides[0].cq.len() == 4));
    assert_eq!(statuses(&mut rig), [WcStatus::WrFlushErr; 4]);
}

#[test]
fn a_queue_pair_that_was_stuck_before_reset_sends_again_after_it() {
    let (mut rig, mut handles, options) = stuck(Options::default().attr);
    rig.sides[0].force(handles[0].qpn, QpState::Reset);
    rig.sides[1].force(handles[1].qpn, QpState::Reset);
    rig.drops = Box::new(|_, _| false);
    rig.bring_up(&handles, &options);
    assert!(!rig.run(3, |rig| !rig.sides[0].cq.is_empty()), "RESET emptied the queue without completions");
    post(&rig, &mut handles, 5);
    assert!(rig.run(100, |rig| rig.sides[0].cq.len() == 5), "posted, and nobody woke the engine");
    assert_eq!(statuses(&mut rig), [WcStatus::Success; 5]);
}

#[test]
fn a_queue_pair_reset_while_its_doorbell_was_under_way_sends_again_after_it() {
    let mut rig = Rig::new(1, 64);
    let options = Options::default();
    let mut handles = rig.connect(&options);
    post(&rig, &mut handles, 1);
    rig.sides[0].force(handles[0].qpn, QpState::Reset);
    rig.sides[1].force(handles[1].qpn, QpState::Reset);
    rig.bring_up(&handles, &options);
    post(&rig, &mut handles, 2);
    assert!(rig.run(100, |rig| rig.sides[0].cq.len() == 2), "posted, and nobody woke the engine");
}

#[test]
fn every_gate_that_closes_opens_again() {
    for window in [1, 2, 7] {
        for ring in [1, 3, 64] {
            let options = Options { window, ..Options::default() };
            let mut rig = Rig::new(1, 256);
            let mut handles = rig.connect(&options);
            rig.sides[0].engine.port_mut().ring = ring;
            let (mut posted, mut completed) = (0, 0);
            let done = rig.run(20_000, |rig| {
                // Posts in bursts of changing length, now and then none, so that the queue pair
                // rests often.
                if posted < 1_000 && completed + 100 > posted {
                    let burst = posted % 5;
                    post(rig, &mut handles, burst);
                    posted += burst.max(1);
                    completed += 1 - burst.min(1);
                }
                completed += rig.sides[0].drain() as u64;
                completed >= 1_000
            });
            assert!(done, "window {window}, ring {ring}: {completed} of {posted}");
        }
    }
}

/// Connected pairs, each of which has had a WRITE acknowledged; the first side's engine then waits
/// for nothing.
fn calm(pairs: u32) -> (Rig, Vec<[QpHandles; 2]>) {
    let mut rig = Rig::new(pairs, 1024);
    let mut all: Vec<_> = (0..pairs).map(|_| rig.connect(&Options::default())).collect();
    all.iter_mut().for_each(|handles| post(&rig, handles, 1));
    assert!(rig.run(1000, |rig| rig.sides[0].cq.len() == pairs));
    assert_eq!(statuses(&mut rig), vec![WcStatus::Success; pairs as usize]);
    (rig, all)
}

#[test]
fn among_many_queue_pairs_no_timer_is_left_for_nothing() {
    let (rig, _) = calm(10);
    assert!(rig.sides[0].engine.next_deadline().is_some(), "among few it is left, as it may be wanted again");
    let (rig, _) = calm(300);
    assert_eq!(rig.sides[0].engine.next_deadline(), None);
}

#[test]
fn a_timer_that_was_disarmed_among_many_is_armed_for_the_next_request() {
    let (mut rig, mut all) = calm(300);
    let mut lost = false;
    rig.drops = Box::new(move |_, _| !std::mem::replace(&mut lost, true));
    post(&rig, &mut all[7], 1);
    assert!(rig.run(1000, |rig| rig.sides[0].cq.len() == 1), "its loss was not noticed");
    assert_eq!(statuses(&mut rig), [WcStatus::Success]);
    assert!(
        rig.sides[0].engine.core().counters().tail_probes + rig.sides[0].engine.core().counters().rto_fired
            > 0
    );
}
