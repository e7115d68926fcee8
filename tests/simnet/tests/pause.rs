//! Queue pairs that their program pauses.

use datapath::engine::QpLimit;
use datapath::qp::state::QpState;
use datapath::queue::WcStatus;
use simnet::{Qp, QpOptions, Region, Rig, RigOptions, Span, Work};

const LEN: usize = 64 << 10;

struct World {
    rig: Rig,
    a: Qp,
    b: Qp,
    source: Region,
    target: Region,
}

fn world() -> World {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let (source, target) = (rig.region(a.node(), LEN), rig.region(b.node(), LEN));
    World { rig, a, b, source, target }
}

impl World {
    fn pause(&mut self, qp: Qp, paused: bool) {
        let qpn = self.rig.qpn(qp);
        let core = self.rig.engine_mut(qp.node()).core_mut();
        if paused { core.pause_qp(qpn) } else { core.resume_qp(qpn) }.expect("it exists");
        assert_eq!(core.is_paused(qpn), Some(paused));
    }

    fn spans(&self) -> (Span, Span) {
        (self.source.at(0, LEN), self.target.at(0, LEN))
    }

    fn sent(&self, qp: Qp) -> u64 {
        let counters = self.rig.counters(qp);
        counters.tx_requests + counters.tx_responses + counters.tx_retransmits + counters.tx_probes
    }

    fn limit(&self, qp: Qp) -> QpLimit {
        let reports = self.rig.engine(qp.node()).core().reports(self.rig.now());
        reports.iter().find(|report| report.qpn == self.rig.qpn(qp)).expect("it exists").limit
    }
}

/// Whenever it is paused, nothing goes out but acknowledgements, and it goes on where it was.
#[test]
fn nothing_is_sent_while_a_queue_pair_is_paused() {
    for pause_at in (0..30_000).step_by(700) {
        let mut world = world();
        let (from, to) = world.spans();
        world.rig.net.link_mut(world.rig.up(world.a)).faults.loss_ppm = 50_000;
        for _ in 0..4 {
            world.rig.write(world.a, from, to);
        }
        world.rig.run_for(pause_at);
        world.pause(world.a, true);
        let before = world.sent(world.a);
        // Longer than every timer, and than all retries.
        world.rig.run_for(3_000_000_000);
        assert_eq!(world.sent(world.a), before, "paused at {pause_at}");
        let done = world.rig.sends(world.a).len();
        assert!(done == 4 || world.limit(world.a) == QpLimit::Paused, "{:?}", world.limit(world.a));
        world.pause(world.a, false);
        world.rig.run_until(|rig| rig.sends(world.a).len() == 4, 1_000_000_000).expect("all complete");
        assert!(world.rig.sends(world.a).iter().all(|done| done.status == WcStatus::Success));
        assert_eq!(world.rig.state(world.a), QpState::Rts);
    }
}

/// Of the other end only what answers waits: its own requests are acknowledged.
#[test]
fn what_comes_in_is_taken_and_acknowledged_while_paused() {
    let mut world = world();
    let (from, to) = world.spans();
    world.pause(world.b, true);
    world.rig.write(world.a, from, to);
    world.rig.run_until(|rig| rig.sends(world.a).len() == 1, 10_000_000).expect("the WRITE completes");
    world.rig.post(world.a, &Work::read(from, to));
    world.rig.run_for(1_000_000);
    assert_eq!(world.rig.sends(world.a).len(), 1, "the READ is not answered");
    assert_eq!(world.rig.counters(world.b).tx_responses, 0);
    world.pause(world.b, false);
    world.rig.run_until(|rig| rig.sends(world.a).len() == 2, 100_000_000).expect("the READ completes");
    assert!(world.rig.sends(world.a).iter().all(|done| done.status == WcStatus::Success));
}

/// A pause ends with the life that it was in, and nothing stays behind in any queue.
#[test]
fn a_pause_ends_with_reset_error_and_destruction() {
    for end in [QpState::Reset, QpState::Err] {
        let mut world = world();
        let (from, to) = world.spans();
        world.rig.write(world.a, from, to);
        world.rig.run_for(1_000);
        world.pause(world.a, true);
        world.rig.run_for(100_000);
        world.rig.to_state(world.a, end);
        let qpn = world.rig.qpn(world.a);
        assert_eq!(world.rig.engine(world.a.node()).core().is_paused(qpn), Some(false));
        world.rig.reconnect(world.a, 0x2000, world.b, 0x3000);
        world.rig.take_completions(world.a);
        world.rig.write(world.a, from, to);
        world.rig.run_until(|rig| rig.sends(world.a).len() == 1, 10_000_000).expect("it goes on");
    }
    let mut world = world();
    let (from, to) = world.spans();
    world.rig.write(world.a, from, to);
    world.pause(world.a, true);
    world.rig.run_for(100_000);
    assert!(world.rig.destroy(world.a));
    world.rig.run_for(100_000);
    assert!(!world.rig.engine(world.a.node()).has_work(), "nothing waits");
}

/// The others have their turns, whatever the scheduler.
#[test]
fn a_paused_queue_pair_takes_no_turn_of_others() {
    use datapath::sched::SchedulerConfig::{DeficitRoundRobin, RoundRobin, StrictPriority, Weighted};
    for scheduler in [RoundRobin, Weighted, StrictPriority { cap_mbps: [0; 8] }, DeficitRoundRobin] {
        let mut rig = Rig::new(RigOptions { scheduler, ..RigOptions::default() });
        let (left, right) = (rig.add_node(), rig.add_node());
        let (source, target) = (rig.region(left, LEN), rig.region(right, LEN));
        let qps: Vec<Qp> = (0..4).map(|_| rig.connected(left, right, QpOptions::default()).0).collect();
        let paused = rig.qpn(qps[1]);
        rig.engine_mut(left).core_mut().pause_qp(paused).expect("it exists");
        for qp in &qps {
            rig.write(*qp, source.at(0, LEN), target.at(0, LEN));
        }
        rig.run_for(1_000_000);
        let done: Vec<usize> = qps.iter().map(|qp| rig.sends(*qp).len()).collect();
        assert_eq!(done, [1, 0, 1, 1], "{scheduler:?}");
        assert!(rig.next_step().is_none(), "a paused queue pair keeps nobody busy");
        rig.engine_mut(left).core_mut().resume_qp(paused).expect("it exists");
        rig.run_for(1_000_000);
        assert_eq!(rig.sends(qps[1]).len(), 1);
    }
}
