//! A queue pair that has ended acknowledges once more what had arrived before: its peer may not
//! have heard it.

use datapath::qp::attr::RecoveryPolicy;
use datapath::qp::state::QpState;
use datapath::queue::{Completion, WcStatus};
use simnet::filter::{Passing, drop_all};
use simnet::{FrameKind, Qp, QpOptions, Region, Rig, RigOptions, Work};
use wire::WireMode::{self, Plain, Srnic};

const MS_NS: u64 = 1_000_000;
const LIMIT_NS: u64 = 60_000 * MS_NS;
const MODES: [WireMode; 2] = [Srnic, Plain];

/// How a program leaves its queue pair.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Destroyed,
    Error,
}

fn options(mode: WireMode) -> QpOptions {
    let recovery = match mode {
        Srnic => RecoveryPolicy::SelectiveRepeat,
        Plain => RecoveryPolicy::GoBackN,
    };
    QpOptions { wire_mode: mode, recovery, retry_cnt: 2, timeout: 10, ..QpOptions::default() }
}

/// `a` has sent a message to `b`, which has it, and of whose acknowledgements none came through.
struct Arrived {
    rig: Rig,
    a: Qp,
    b: Qp,
    source: Region,
    target: Region,
}

impl Arrived {
    fn new(mode: WireMode) -> Self {
        let (mut rig, a, b) = Rig::pair(RigOptions::seeded(3), options(mode));
        let (source, target) = (rig.region(a.node(), 5000), rig.region(b.node(), 5000));
        rig.post_recv(b, target.all());
        rig.net.set_filter(rig.up(b), drop_all(|passing| passing.kind() == FrameKind::Ack));
        rig.send(a, source.at(0, 3000));
        rig.run_until(|rig| rig.recvs(b).len() == 1, MS_NS).unwrap();
        Self { rig, a, b, source, target }
    }

    fn end(&mut self, how: End) {
        match how {
            End::Destroyed => assert!(self.rig.destroy(self.b)),
            End::Error => self.rig.to_err(self.b),
        }
    }

    /// How the message of `a` ended, once acknowledgements pass.
    fn outcome(mut self) -> (WcStatus, u64) {
        self.rig.net.heal();
        let a = self.a;
        self.rig.run_until(|rig| !rig.sends(a).is_empty(), LIMIT_NS).unwrap();
        let status = |done: &Completion| done.status;
        let again = self.rig.engine(self.b.node()).core().counters().tx_last_acks;
        (status(&self.rig.sends(a)[0]), again)
    }
}

#[test]
fn what_had_arrived_is_acknowledged_after_the_end() {
    for mode in MODES {
        for how in [End::Destroyed, End::Error] {
            let mut arrived = Arrived::new(mode);
            arrived.end(how);
            let (status, again) = arrived.outcome();
            assert_eq!((status, again), (WcStatus::Success, 1), "{mode:?} {how:?}");
        }
    }
}

#[test]
fn what_had_not_arrived_is_not() {
    for mode in MODES {
        for how in [End::Destroyed, End::Error] {
            let mut arrived = Arrived::new(mode);
            arrived.end(how);
            let Arrived { rig, a, b, source, target } = &mut arrived;
            rig.net.heal();
            rig.write(*a, source.at(0, 100), target.at(0, 100));
            rig.run_until(|rig| rig.sends(*a).len() == 2, LIMIT_NS).unwrap();
            let ends: Vec<_> = rig.sends(*a).iter().map(|done| done.status).collect();
            assert_eq!(ends, [WcStatus::Success, WcStatus::RetryExcErr], "{mode:?} {how:?}");
            let counters = rig.engine(b.node()).core().counters();
            assert!(counters.drop_unknown_qp + counters.drop_qp_state > 0, "{mode:?} {how:?}");
        }
    }
}

/// Who began the next life is not answered out of the last one.
#[test]
fn a_queue_pair_that_was_reset_says_nothing_of_its_former_life() {
    for mode in MODES {
        let mut arrived = Arrived::new(mode);
        arrived.end(End::Error);
        arrived.rig.reset(arrived.b);
        assert_eq!(arrived.rig.state(arrived.b), QpState::Reset);
        let (status, again) = arrived.outcome();
        assert_eq!((status, again), (WcStatus::RetryExcErr, 0), "{mode:?}");
    }
}

/// A queue pair whose peer is told of the end is not waited for.
#[test]
fn the_engine_owes_an_answer_to_who_was_not_told_and_not_for_ever() {
    for (how, owes) in [(End::Destroyed, true), (End::Error, false)] {
        let mut arrived = Arrived::new(Srnic);
        // Nothing comes through any more.
        let Arrived { rig, a, b, .. } = &mut arrived;
        rig.net.set_filter(rig.up(*a), drop_all(|_: &Passing<'_>| true));
        let node = b.node();
        arrived.end(how);
        arrived.rig.run_for(MS_NS);
        assert_eq!(arrived.rig.engine(node).owes(), owes, "{how:?}");
        arrived.rig.run_for(20 * MS_NS);
        let now = arrived.rig.now();
        arrived.rig.engine_mut(node).turn(now);
        assert!(!arrived.rig.engine(node).owes(), "{how:?}: after 20 ms");
    }
}

/// Who has answered a READ stays until its requester has said that it has the data.
#[test]
fn the_engine_owes_what_it_has_answered_until_that_is_acknowledged() {
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(4), options(Srnic));
    let (local, remote) = (rig.region(a.node(), 1000), rig.region(b.node(), 1000));
    assert!(!rig.engine(b.node()).owes());
    rig.net.set_filter(rig.up(a), drop_all(|passing| passing.is_read_ack()));
    rig.post(a, &Work::read(local.all(), remote.all()));
    rig.run_until(|rig| rig.sends(a).len() == 1, MS_NS).unwrap();
    rig.run_for(MS_NS);
    assert!(rig.engine(b.node()).owes(), "no READ-ACK came");
    rig.net.heal();
    rig.run_until(|rig| !rig.engine(b.node()).owes(), LIMIT_NS).unwrap();
}
