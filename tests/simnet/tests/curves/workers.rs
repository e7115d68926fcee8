//! Jobs and answers: a leader keeps a few SENDs outstanding to each of three workers, while other
//! programs have the processors of hosts and switch (docs/adr/0041).

use crate::path::{Control, median, sender};
use crate::random_loss::{FIXED, HALVING, SHIPPED};
use datapath::queue::QueueCaps;
use simnet::{Faults, LinkConfig, LinkId, PortOptions, Qp, QpOptions, Region, Rest, Rig, RigOptions};

const SEEDS: u64 = 3;
const WORKERS: usize = 3;
/// Jobs outstanding to each worker.
const DEPTH: usize = 16;
const JOB: usize = 1024;
const ANSWER: usize = 64;
/// Time of a turn, in nanoseconds.
const TURN_NS: u64 = 2_000;
/// Length of the measurement, in nanoseconds.
const LASTS_NS: u64 = 200_000_000;

/// What a leader and its workers meet.
#[derive(Clone, Copy, Debug)]
struct Path {
    hosts: Rest,
    switch: Rest,
    /// Packets lost of a million, each way.
    loss_ppm: u32,
}

struct Pool {
    rig: Rig,
    /// The leader's end and the worker's end of each connection, and what each sends from and takes
    /// into.
    ends: Vec<(Qp, Qp)>,
    regions: Vec<(Region, Region)>,
    answered: u64,
}

impl Pool {
    fn new(path: &Path, control: Control, seed: u64) -> Self {
        let link = LinkConfig { propagation_ns: 1_000, ps_per_byte: 80, ..LinkConfig::default() };
        let port = PortOptions { up: link, down: link, ..PortOptions::default() };
        let options = RigOptions {
            port,
            rest: path.hosts,
            turn_cost_ns: TURN_NS,
            rto: datapath::stream::RtoConfig::default(),
            ..RigOptions::seeded(seed)
        };
        let mut rig = Rig::new(options);
        rig.net.set_rest(path.switch);
        rig.net.keep_recent(0);
        let leader = rig.add_node();
        let mut pool = Self { rig, ends: Vec::new(), regions: Vec::new(), answered: 0 };
        for _ in 0..WORKERS {
            pool.add_worker(leader, control);
        }
        for node in pool.ends.iter().flat_map(|(a, b)| [a.node(), b.node()]) {
            pool.rig.net.set_faults(LinkId::Up(node), Faults::loss(path.loss_ppm));
        }
        for index in 0..WORKERS {
            (0..DEPTH).for_each(|_| pool.give(index));
        }
        pool
    }

    fn add_worker(&mut self, leader: simnet::NodeId, control: Control) {
        let node = self.rig.add_node();
        let caps = QueueCaps {
            max_send_wr: 1_024,
            max_recv_wr: 64,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let options = QpOptions { caps, ..sender(control, 512, 1_024) };
        let (a, b) = self.rig.connected(leader, node, options);
        let regions = (self.rig.region(leader, JOB), self.rig.region(node, JOB));
        for _ in 0..DEPTH {
            self.rig.post_recv(a, regions.0.all());
            self.rig.post_recv(b, regions.1.all());
        }
        self.ends.push((a, b));
        self.regions.push(regions);
    }

    fn give(&mut self, index: usize) {
        self.rig.send(self.ends[index].0, self.regions[index].0.all());
    }

    /// Answers what has come, and gives a job for each answer.
    fn serve(&mut self) {
        for index in 0..WORKERS {
            let ((a, b), (ours, theirs)) = (self.ends[index], self.regions[index]);
            let (_, answers) = self.rig.take_completions(a);
            for _ in answers {
                self.answered += 1;
                self.rig.post_recv(a, ours.all());
                self.give(index);
            }
            let (_, jobs) = self.rig.take_completions(b);
            for _ in jobs {
                self.rig.post_recv(b, theirs.all());
                self.rig.send(b, theirs.at(0, ANSWER));
            }
        }
    }

    /// Jobs a second, once it has settled.
    fn rate(&mut self) -> f64 {
        self.run_for(LASTS_NS / 4);
        let before = self.answered;
        self.run_for(LASTS_NS);
        (self.answered - before) as f64 * 1e9 / LASTS_NS as f64
    }

    fn run_for(&mut self, ns: u64) {
        let end = self.rig.now().after(ns);
        while let Some(at) = self.rig.next_step().filter(|at| *at <= end) {
            self.rig.step_at(at);
            self.rig.poll();
            self.serve();
        }
    }
}

/// Median rate over the seeds.
fn rate(path: &Path, control: Control) -> f64 {
    median((1..=SEEDS).map(|seed| Pool::new(path, control, seed).rate()).collect())
}

/// What `control` keeps of the rate of a fixed window.
fn kept(path: &Path, control: Control) -> f64 {
    let (fixed, ours) = (rate(path, FIXED), rate(path, control));
    println!("{path:?}: fixed {fixed:.0} jobs/s, {:.3} of it kept", ours / fixed);
    ours / fixed
}

const STARVED_HOSTS: Path = Path { hosts: Rest::Starved, switch: Rest::Never, loss_ppm: 50_000 };
const STARVED_SWITCH: Path = Path { hosts: Rest::Never, switch: Rest::Starved, loss_ppm: 50_000 };
const ALL_STARVED: Path = Path { hosts: Rest::Starved, switch: Rest::Starved, loss_ppm: 50_000 };

/// Threads that wait for a processor are no congestion.
fn is_no_congestion(path: &Path) {
    assert!(kept(path, SHIPPED) >= 0.9, "{path:?}");
}

#[test]
fn hosts_that_wait_for_a_processor_are_no_congestion() {
    is_no_congestion(&STARVED_HOSTS);
}

#[test]
fn a_switch_that_waits_for_a_processor_is_no_congestion() {
    is_no_congestion(&STARVED_SWITCH);
}

#[test]
fn hosts_and_a_switch_that_wait_are_no_congestion() {
    is_no_congestion(&Path { loss_ppm: 20_000, ..ALL_STARVED });
}

/// A frame that waits for three threads in a row shows a delay that changes slowly, as that of a
/// queue does.
#[test]
fn waiting_everywhere_costs_a_part() {
    assert!(kept(&ALL_STARVED, SHIPPED) >= 0.6);
}

/// The negative control: a controller that halves for each loss.
#[test]
fn halving_takes_most_of_the_jobs() {
    assert!(kept(&STARVED_HOSTS, HALVING) < 0.6);
}
