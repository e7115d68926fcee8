//! Plays points of a search on two engines over memif, each of which a thread of its own drives.

use crate::error::{Error, Result};
use crate::interrupt;
use crate::place::Place;
use crate::two_hosts::{Flows, Playable, Player, open, serve};
use srnic_workload::judge::{Finding, judge, signals};
use srnic_workload::play::{EntryOutcome, LinkStats, Outcome};
use srnic_workload::scenario::{Faults, Link, Scenario};
use srnic_workload::search::{DIMENSIONS, Point, Trial};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use verbs_api::{Counters, Device, FaultStats, Role};

/// How long requests are posted, in microseconds.
const TIME_US: u32 = 5_000;
/// How long requests may take that were posted by then: a lost packet is repaired long before.
const STUCK_AFTER: Duration = Duration::from_secs(5);
/// What is wrong must be so each time: a machine does many things besides.
const TIMES: usize = 3;
/// How long frames are late of which a scenario says that they are.
const LATE_NS: u32 = 5_000;

/// The scenario of a point as it is played: host 1 posts nothing.
pub fn scenario(point: &Point) -> Scenario {
    let both = DIMENSIONS.iter().position(|dimension| dimension.name == "both ways");
    let point = both.map_or(*point, |both| point.with(both, 0));
    Scenario { time_us: TIME_US, link: Link::default(), ..point.scenario() }
}

/// Whether a scenario can be played.
///
/// # Errors
/// [`Error::Options`] says what cannot.
pub fn check(scenario: &Scenario) -> Result<()> {
    let plain = Scenario::default();
    let keys = [
        ("link", scenario.link != plain.link),
        ("host", scenario.host != plain.host),
        ("costs", scenario.costs != plain.costs),
        ("tenant", !scenario.tenant.is_empty()),
    ];
    let keys = keys.into_iter().filter(|(_, differs)| *differs);
    let whole = keys.map(|(key, _)| format!("[{key}], which two engines over memif have not"));
    let entries = scenario.workload.iter().enumerate().filter_map(|(number, entry)| {
        let refused = Playable::of(entry).err()?;
        Some(format!("{refused} of workload {}, which is played otherwise or not at all", number + 1))
    });
    let refused: Vec<_> = whole.chain(entries).collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(Error::Options(format!("--real cannot play {}; leave it out, or --real", refused.join(", nor "))))
}

/// What is wrong on any machine.
pub fn findings(scenario: &Scenario, outcome: &Outcome) -> Vec<Finding> {
    let mut findings = judge(scenario, outcome);
    findings.retain(|finding| finding.kind.holds_anywhere());
    findings
}

/// Hosts by the faults between them: those that were played before stay connected.
pub struct Stage {
    place: Place,
    hosts: Vec<Hosts>,
}

impl Stage {
    /// Without hosts yet.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn new() -> Result<Self> {
        Ok(Self { place: Place::new("search")?, hosts: Vec::new() })
    }

    /// Plays a point, and judges it. Of what is wrong, only that counts which is wrong on any
    /// machine, and again each time.
    ///
    /// # Errors
    /// As [`play`](Self::play).
    pub fn trial(&mut self, point: &Point) -> Result<Trial> {
        let scenario = scenario(point);
        let mut trial = self.judge(&scenario)?;
        for _ in 1..TIMES {
            if trial.findings.is_empty() {
                break;
            }
            let again = self.judge(&scenario)?.findings;
            trial.findings.retain(|finding| again.iter().any(|other| other.kind == finding.kind));
        }
        Ok(trial)
    }

    fn judge(&mut self, scenario: &Scenario) -> Result<Trial> {
        let outcome = self.play(scenario)?;
        let findings = findings(scenario, &outcome);
        Ok(Trial { findings, signals: signals(scenario, &outcome) })
    }

    /// Plays a scenario for as long as [`Scenario::time_us`] says.
    ///
    /// # Errors
    /// [`Error::Options`] if it is none that can be played, [`Error::Verbs`],
    /// [`Error::Interrupted`].
    pub fn play(&mut self, scenario: &Scenario) -> Result<Outcome> {
        check(scenario)?;
        let time = Duration::from_micros(scenario.time_us.into());
        let at = match self.hosts.iter().position(|hosts| hosts.faults == scenario.faults) {
            Some(at) => at,
            None => {
                self.hosts.push(Hosts::open(&self.place, self.hosts.len(), scenario.faults)?);
                self.hosts.len() - 1
            }
        };
        self.hosts[at].play(scenario, time)
    }
}

/// Two hosts, of which the second has a thread.
struct Hosts {
    faults: Faults,
    player: Player,
    server: Server,
}

impl Hosts {
    fn open(place: &Place, number: usize, faults: Faults) -> Result<Self> {
        let memif = format!("memif:{}", place.path().join(format!("{number}.sock")).display());
        let server = Server::start(open(&memif, Role::Server, None)?)?;
        let player = Player::open(&format!("{}{memif}", prefix(faults)), None)?;
        Ok(Self { faults, player, server })
    }

    fn counters(&self) -> Counters {
        let mut sum = self.player.device().counters();
        sum.add(&self.server.device.counters());
        sum
    }

    fn play(&mut self, scenario: &Scenario, time: Duration) -> Result<Outcome> {
        self.server.check()?;
        let device = self.player.device();
        let (counters, faults) = (self.counters(), device.fault_stats());
        let entries = scenario.workload.iter().map(|entry| self.player.flows(entry, 0));
        let mut flows = entries.collect::<Result<Vec<_>>>()?;
        let since = Instant::now();
        let mut turns = 0;
        let mut step = |flows: &mut [Flows]| {
            flows.iter_mut().try_for_each(Flows::step)?;
            device.progress();
            turns += 1;
            interrupt::check()
        };
        while since.elapsed() < time {
            step(&mut flows)?;
        }
        let time_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let told: Vec<_> = flows.iter().map(|flows| (flows.bytes(), flows.shares().collect())).collect();
        flows.iter_mut().for_each(Flows::stop);
        let stopped = Instant::now();
        let is_under_way = |flows: &Flows| flows.failed().is_none() && flows.under_way() > 0;
        while stopped.elapsed() < STUCK_AFTER && flows.iter().any(is_under_way) {
            step(&mut flows)?;
        }
        let entry = |(flows, (bytes, shares)): (&Flows, (u64, Vec<u64>))| EntryOutcome {
            requests: shares.iter().sum(),
            bytes,
            errors: flows.errors(),
            stuck: if is_under_way(flows) { flows.under_way() } else { 0 },
            shares,
            latencies: Vec::new(),
            time_ns,
        };
        let entries = flows.iter().zip(told).map(entry).collect();
        let outcome = Outcome {
            entries,
            counters: self.counters().since(&counters),
            links: vec![links(&faults, &device.fault_stats())],
            turns,
            busy: Vec::new(),
            hash: 0,
            took: since.elapsed(),
        };
        self.player.leave(flows);
        Ok(outcome)
    }
}

/// The engine of host 1, and the thread that drives it.
struct Server {
    device: Device,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Server {
    fn start(device: Device) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (served, ends) = (device.clone(), Arc::clone(&is_over));
        let thread = thread::Builder::new().name("host 1".to_owned());
        let thread = thread.spawn(move || serve(&served, None, &ends));
        let thread = thread.map_err(Error::file("start", Path::new("a thread")))?;
        Ok(Self { device, is_over, thread: Some(thread) })
    }

    /// Whether it still serves.
    fn check(&mut self) -> Result<()> {
        match self.thread.take_if(|thread| thread.is_finished()).map(JoinHandle::join) {
            None if self.thread.is_some() => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            _ => Err(Error::Unexpected { said: "the end of host 1".to_owned(), expected: "that it serves" }),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Relaxed: a flag of its own, which guards no other memory.
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What stands before a device for such faults, both ways.
fn prefix(faults: Faults) -> String {
    let Faults { loss, reorder, duplicate, corrupt, late_ns } = faults;
    let late_ns = if late_ns == 0 { LATE_NS } else { late_ns };
    let parts = [("loss", loss), ("reorder", reorder), ("dup", duplicate), ("corrupt", corrupt)];
    let parts = parts.into_iter().filter(|(_, part)| *part > 0.0);
    let mut words: Vec<String> = parts.map(|(key, part)| format!("{key}={}%", 100.0 * part)).collect();
    if words.is_empty() {
        return String::new();
    }
    if reorder > 0.0 {
        words.push(format!("reorder_max={late_ns}ns"));
    }
    format!("fault:{}:", words.join(","))
}

/// What the faults of host 0's port did meanwhile.
fn links(before: &FaultStats, after: &FaultStats) -> [LinkStats; 2] {
    [(before.tx, after.tx), (before.rx, after.rx)].map(|(before, after)| LinkStats {
        lost: after.lost - before.lost,
        overflowed: after.queue_full - before.queue_full,
        duplicated: after.duplicated - before.duplicated,
        reordered: after.reordered - before.reordered,
        corrupted: after.corrupted - before.corrupted,
        delivered_bytes: after.passed_bytes - before.passed_bytes,
        ..LinkStats::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use srnic_workload::judge::Kind;

    #[test]
    fn what_cannot_be_played_is_refused_with_its_reason() {
        let refused = |text: &str| {
            let scenario = Scenario::parse(text).expect("a workload");
            check(&scenario).expect_err(text).to_string()
        };
        assert_eq!(
            refused("{workload = [{}, {pace_ns = 5}]}"),
            "--real cannot play pace_ns of workload 2, which is played otherwise or not at all; leave it out, or --real"
        );
        assert!(refused("{link = {gbps = 1.0}, workload = [{}]}").contains("[link], which two engines"));
        assert!(check(&scenario(&Point([0; 14]))).is_ok());
    }

    #[test]
    fn faults_are_a_string_of_the_port() {
        assert_eq!(prefix(Faults::default()), "");
        let faults = Faults { loss: 0.01, reorder: 0.5, ..Faults::default() };
        assert_eq!(prefix(faults), "fault:loss=1%,reorder=50%,reorder_max=5000ns:");
        let device =
            format!("{}memif:/tmp/a.sock", prefix(Faults { corrupt: 1.0, duplicate: 0.2, ..faults }));
        assert!(device.parse::<verbs_api::DeviceSpec>().is_ok(), "{device}");
    }

    /// A network that loses packets of which the scenario says nothing is told; one that says so is
    /// well.
    #[test]
    fn a_network_that_is_worse_than_said_is_found() {
        let text = "{time_us = 50000, workload = [{op = 'write', qps = 4, depth = 16, sizes = 16384}]}";
        let said = Scenario::parse(text).expect("a workload");
        let faults = Faults { loss: 0.02, ..Faults::default() };
        let mut stage = Stage::new().expect("a directory");
        stage.hosts.push(Hosts::open(&stage.place, 0, faults).expect("two hosts"));
        let kinds = |stage: &mut Stage, scenario: &Scenario| {
            let trial = stage.judge(scenario).expect("played");
            trial.findings.iter().map(|finding| finding.kind).collect::<Vec<_>>()
        };
        let honest = Scenario { faults, ..said.clone() };
        let told = kinds(&mut stage, &honest);
        let wrong = [Kind::Error, Kind::Stuck, Kind::Damaged, Kind::Dropped];
        assert!(wrong.iter().all(|kind| !told.contains(kind)), "{told:?}");
        stage.hosts[0].faults = said.faults;
        let found = kinds(&mut stage, &said);
        assert!(found.contains(&Kind::Resent) && found.contains(&Kind::Reordered), "{found:?}");
    }

    #[test]
    fn host_1_posts_nothing() {
        let point = Point([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!((point.scenario().workload.len(), scenario(&point).workload.len()), (2, 1));
    }
}
