//! Where the time of an operation goes: a delay at one place moves the part of that place by as
//! much, and no other.

use datapath::latency::{LatencyConfig, Part, Parts, Sample};
use datapath::queue::{SendOpcode, WcStatus};
use datapath::sched::{PRIORITIES, SchedAttributes, SchedulerConfig};
use datapath::stream::RtoConfig;
use simnet::{LinkConfig, LinkId, QpOptions, Rig, RigOptions, Verdict, Work};

/// What is injected.
const DELAY_NS: u64 = 50_000;
/// Whatever is to happen has happened by then.
const LIMIT_NS: u64 = 100_000_000;

/// Samples one in so many, and keeps them all. No delay here is so long that it is probed for.
fn options(one_in: u32) -> RigOptions {
    let rto = RtoConfig { tail_floor_ns: 1_000_000, ..RtoConfig::default() };
    RigOptions { latency: Some(LatencyConfig { one_in, slow_ns: 0 }), rto, ..RigOptions::default() }
}

/// The sample of the request with that number, which has been polled.
fn sample(rig: &mut Rig, qp: simnet::Qp, wr_id: u64) -> Sample {
    // The engine hears of the poll in its next turn.
    rig.turn(qp.node());
    let report = rig.engine(qp.node()).core().latency(rig.now()).expect("it samples");
    let qpn = rig.qpn(qp);
    let found = report.slow.iter().find(|slow| (slow.sample.qpn, slow.sample.wr_id) == (qpn, wr_id));
    found.unwrap_or_else(|| panic!("{wr_id} was not sampled: {report:?}")).sample
}

/// A WRITE of 64 bytes from its post to its poll.
fn write(rig: &mut Rig, (a, b): (simnet::Qp, simnet::Qp)) -> Sample {
    let (from, to) = (rig.region(a.node(), 64), rig.region(b.node(), 64));
    let wr_id = rig.write(a, from.all(), to.all());
    rig.run_until(|rig| rig.sends(a).iter().any(|done| done.wr_id == wr_id), LIMIT_NS).expect("it completes");
    sample(rig, a, wr_id)
}

/// Only `part` has moved, by `delay` within a tenth.
#[track_caller]
fn assert_moved(part: Part, delay: u64, before: &Parts, after: &Parts) {
    for (of, ns) in after.iter() {
        let expected = if of == part { before[of] + delay } else { before[of] };
        let wrong = ns.abs_diff(expected);
        assert!(wrong * 10 <= delay, "{of}: {ns} ns, not {expected}\n{before:?}\n{after:?}");
    }
}

fn baseline(options: RigOptions, qp: QpOptions) -> Parts {
    let (mut rig, a, b) = Rig::pair(options, qp);
    let sample = write(&mut rig, (a, b));
    assert_eq!((sample.opcode, sample.status, sample.again), (SendOpcode::Write, WcStatus::Success, 0));
    sample.parts
}

#[test]
fn without_a_delay_an_operation_takes_what_the_network_takes() {
    let parts = baseline(options(1), QpOptions::default());
    // Two links each way of 500 ns, and four frames on the wire.
    assert!((2_000..2_500).contains(&parts[Part::Network]), "{parts:?}");
    assert!(parts.total() - parts[Part::Network] < 500, "{parts:?}");
}

#[test]
fn a_thread_that_is_late_to_hand_over_its_post_is_told_apart() {
    let before = baseline(options(1), QpOptions::default());
    let (mut rig, a, b) = Rig::pair(options(1), QpOptions::default());
    let (from, to) = (rig.region(a.node(), 64), rig.region(b.node(), 64));
    let wr_id = rig.stage(a, &Work::write(from.all(), to.all())).expect("there is room");
    rig.run_for(DELAY_NS);
    rig.submit(a);
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).expect("it completes");
    assert_moved(Part::Posting, DELAY_NS, &before, &sample(&mut rig, a, wr_id).parts);
}

#[test]
fn the_scheduler_that_lets_others_go_first_is_told_apart() {
    let link = LinkConfig { ps_per_byte: 0, ..LinkConfig::default() };
    let mut options = options(1);
    options.scheduler = SchedulerConfig::StrictPriority { cap_mbps: [0; PRIORITIES] };
    options.turn_cost_ns = 5_000;
    (options.port.up, options.port.down) = (link, link);
    let before = baseline(options, QpOptions::default());
    let mut rig = Rig::new(options);
    let (left, right) = (rig.add_node(), rig.add_node());
    let first = SchedAttributes { priority: 7, ..SchedAttributes::default() };
    let first =
        rig.connected(left, right, QpOptions { window: 512, scheduling: first, ..QpOptions::default() });
    let then = rig.connected(left, right, QpOptions::default());
    let (from, to) = (rig.region(left, 1 << 16), rig.region(right, 1 << 16));
    for _ in 0..8 {
        rig.write(first.0, from.all(), to.all());
    }
    // 512 packets, of which a turn sends 32.
    let delay = 512 / 32 * options.turn_cost_ns;
    assert_moved(Part::Scheduler, delay, &before, &write(&mut rig, then).parts);
}

#[test]
fn a_window_that_is_full_is_told_apart() {
    let mut options = options(2);
    options.port.up.propagation_ns = DELAY_NS / 4;
    options.port.down.propagation_ns = DELAY_NS / 4;
    let qp = QpOptions { window: 1, ..QpOptions::default() };
    let before = baseline(options, qp);
    let (mut rig, a, b) = Rig::pair(options, qp);
    write(&mut rig, (a, b));
    let (from, to) = (rig.region(a.node(), 64), rig.region(b.node(), 64));
    // Not sampled: it is the second.
    rig.write(a, from.all(), to.all());
    let round_trip = before.total();
    assert!(round_trip.abs_diff(DELAY_NS) * 10 < DELAY_NS);
    assert_moved(Part::Window, round_trip, &before, &write(&mut rig, (a, b)).parts);
}

#[test]
fn a_long_link_is_told_apart() {
    let before = baseline(options(1), QpOptions::default());
    let mut options = options(1);
    options.port.up.propagation_ns += DELAY_NS / 2;
    let after = baseline(options, QpOptions::default());
    assert_moved(Part::Network, DELAY_NS, &before, &after);
}

#[test]
fn a_receiver_that_does_not_run_is_told_apart_from_the_network() {
    let before = baseline(options(1), QpOptions::default());
    let (mut rig, a, b) = Rig::pair(options(1), QpOptions::default());
    let (from, to) = (rig.region(a.node(), 64), rig.region(b.node(), 64));
    // The other one has found nothing until now.
    rig.run_for(1_000);
    let wr_id = rig.write(a, from.all(), to.all());
    rig.freeze(b.node(), true);
    rig.run_for(DELAY_NS);
    rig.freeze(b.node(), false);
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).expect("it completes");
    assert_moved(Part::Peer, DELAY_NS, &before, &sample(&mut rig, a, wr_id).parts);
}

#[test]
fn a_poller_that_is_late_is_told_apart() {
    let before = baseline(options(1), QpOptions::default());
    let (mut rig, a, b) = Rig::pair(options(1), QpOptions::default());
    let (from, to) = (rig.region(a.node(), 64), rig.region(b.node(), 64));
    rig.set_auto_poll(false);
    let wr_id = rig.write(a, from.all(), to.all());
    rig.run_for(before.total() + DELAY_NS);
    rig.poll();
    assert_eq!(rig.sends(a).len(), 1);
    assert_moved(Part::Polling, DELAY_NS, &before, &sample(&mut rig, a, wr_id).parts);
}

/// A poll that nobody tells of is found by the engine in its next turn.
#[test]
fn parts_sum_exactly_to_the_time_from_post_to_poll() {
    let (mut rig, a, b) = Rig::pair(options(1), QpOptions::default());
    rig.run_for(777);
    let posted_at = rig.now();
    let sample = write(&mut rig, (a, b));
    assert_eq!(sample.posted_at, posted_at);
    let polled = rig.now().since(posted_at);
    assert!(sample.parts.total() <= polled && polled - sample.parts.total() < 400, "{sample:?}");
    assert!(sample.first_at >= sample.posted_at && sample.sent_at >= sample.first_at, "{sample:?}");
}

#[test]
fn a_packet_that_is_lost_is_recovery_and_counted() {
    let (mut rig, a, b) = Rig::pair(options(1), QpOptions::default());
    let before = baseline(options(1), QpOptions::default());
    let (from, to) = (rig.region(a.node(), 8 << 10), rig.region(b.node(), 8 << 10));
    rig.net.set_filter(
        rig.up(a),
        Box::new(|passing| if passing.number == 2 { Verdict::Drop } else { Verdict::Pass }),
    );
    let wr_id = rig.write(a, from.all(), to.all());
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).expect("it completes");
    let sample = sample(&mut rig, a, wr_id);
    assert_eq!(sample.again, 1, "{sample:?}");
    assert!(sample.parts[Part::Recovery] > 0 && before[Part::Recovery] == 0, "{sample:?}");
}

#[test]
fn a_peer_without_receives_is_told() {
    let (mut rig, a, b) = Rig::pair(options(1), QpOptions::default());
    let (from, to) = (rig.region(a.node(), 64), rig.region(b.node(), 64));
    let wr_id = rig.send(a, from.all());
    rig.run_for(200_000);
    rig.post_recv(b, to.all());
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).expect("it completes");
    let parts = sample(&mut rig, a, wr_id).parts;
    assert!(parts[Part::Receives] * 10 > parts.total() * 8, "{parts:?}");
}

#[test]
fn an_operation_that_fails_is_kept_under_its_status() {
    let (mut rig, a, b) =
        Rig::pair(options(1), QpOptions { retry_cnt: 1, timeout: 4, ..QpOptions::default() });
    rig.net.set_faults(LinkId::Up(a.node()), simnet::Faults::black_hole());
    let sample = write(&mut rig, (a, b));
    assert_eq!(sample.status, WcStatus::RetryExcErr);
    let report = rig.engine(a.node()).core().latency(rig.now()).expect("it samples");
    assert_eq!(report.operations[0].key.map(|key| key.status), Some(WcStatus::RetryExcErr));
}

#[test]
fn one_in_so_many_is_sampled() {
    let (mut rig, a, b) = Rig::pair(options(16), QpOptions::default());
    let (from, to) = (rig.region(a.node(), 64), rig.region(b.node(), 64));
    for done in 1..=160 {
        rig.write(a, from.all(), to.all());
        rig.run_until(|rig| rig.sends(a).len() == done, LIMIT_NS).expect("it completes");
    }
    rig.turn(a.node());
    let report = rig.engine(a.node()).core().latency(rig.now()).expect("it samples");
    assert_eq!((report.operations[0].count, report.skipped), (10, 0));
    assert!(
        Rig::pair(RigOptions::default(), QpOptions::default())
            .0
            .engine(a.node())
            .core()
            .latency(rig.now())
            .is_none()
    );
}

/// Until the reader's look every nanosecond has a limit.
#[test]
fn the_time_in_all_limits_is_the_time_that_passed() {
    let mut options = options(64);
    options.port.up.propagation_ns = DELAY_NS;
    let (mut rig, a, b) = Rig::pair(options, QpOptions { window: 1, ..QpOptions::default() });
    let (from, to) = (rig.region(a.node(), 8 << 10), rig.region(b.node(), 8 << 10));
    rig.turn(a.node());
    let start = rig.now();
    let times = |rig: &Rig| {
        let [report] = rig.engine(a.node()).core().reports(rig.now())[..] else { panic!("one queue pair") };
        let times: Vec<(String, u64)> = report.limit_times.expect("it samples").iter().collect();
        (times.iter().map(|(_, ns)| ns).sum::<u64>(), times)
    };
    let before = times(&rig).0;
    rig.write(a, from.all(), to.all());
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).expect("it completes");
    let (sum, by_limit) = times(&rig);
    assert_eq!(sum - before, rig.now().since(start), "{by_limit:?}");
    let of = |name: &str| by_limit.iter().find(|(limit, _)| limit == name).map_or(0, |(_, ns)| *ns);
    // Seven round trips of eight are waited for by a packet that the window holds back. The first
    // may be charged to what the look before saw: nothing to send.
    assert!(of("no credit") > 5 * of("acknowledgement") && of("acknowledgement") > 0, "{by_limit:?}");
}
