//! A run by its parameters: a scheme, a network, and the flows on it.

use crate::clock::Ps;
use crate::fabric::{Config, Fabric};
use crate::host::model::Control;
use crate::host::{HostConfig, HostError};
use crate::scheme::Scheme;
use crate::summary::{Row, Summary};
use crate::switch::{Marks, SwitchConfig};
use crate::topology::Topology;
use crate::workload::{Sizes, Workload, WorkloadError, arrivals};
use datapath::engine::EngineConfig;
use datapath::qp::attr::{CongestionAlgorithm, CongestionTuning, RecoveryPolicy};
use wire::Pmtu;

/// Hosts up to which their engines have as many recovery contexts as the engine has by default.
const CONTEXTS_HOSTS: u32 = 64;

/// Recovery contexts of each engine of a network, if nobody says: as many as the engine has by
/// default, which take 5 MB a host, or 2 where hosts are many.
fn recovery_contexts(hosts: u32) -> u32 {
    if hosts <= CONTEXTS_HOSTS { EngineConfig::default().recovery_contexts } else { 2 }
}

/// How often a run says where it stands, in virtual time.
const STEP: Ps = Ps::from_ns(5_000);

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Hosts and switches.
    pub scheme: Scheme,
    /// The network.
    pub topology: Topology,
    /// What hosts send.
    pub workloads: Vec<Workload>,
    /// In which flows begin.
    pub time: Ps,
    /// At the beginning, whose flows are not counted.
    pub warm_up: Ps,
    /// After the last flow began, in which flows may still end.
    pub drain: Ps,
    /// Everything random comes from it.
    pub seed: u64,
    /// Packets of a flow in the network at most.
    pub window: u16,
    /// What differs from the scheme.
    pub changes: Changes,
}

/// What a plan has otherwise than its scheme.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// Bytes of the pool of a switch.
    pub pool: Option<u64>,
    /// Bytes from which on packets are marked; RED's upper bound moves alike.
    pub mark: Option<u64>,
    /// Which packets are marked.
    pub marks: Option<Marks>,
    /// Congestion control of the engine.
    pub congestion: Option<CongestionAlgorithm>,
    /// Its parameters.
    pub tuning: Option<CongestionTuning>,
    /// How the engine repairs losses.
    pub recovery: Option<RecoveryPolicy>,
    /// Streams of an engine that can be in Recovery at once.
    pub recovery_contexts: Option<u32>,
    /// What limits the rate of a model.
    pub control: Option<Control>,
    /// Least time between two notifications of a flow, by receivers of models.
    pub notify_gap: Option<Ps>,
    /// Least time between two cuts of a flow's rate, by senders of models.
    pub cut_gap: Option<Ps>,
    /// Path MTU.
    pub mtu: Option<Pmtu>,
    /// Bytes of a message of the engine, and how many of a flow are posted at once.
    pub messages: Option<(u32, u32)>,
    /// Time between two turns of a host.
    pub turn: Option<Ps>,
    /// Each packet takes a way of its own.
    pub spray: bool,
    /// Part of the frames that are lost on the way from each host, 0 to 1.
    pub loss: f64,
}

impl Plan {
    /// The workload of SRNIC's Figure 12 with `scheme` on `tree`: 1 ms of load 0.7.
    #[must_use]
    pub fn new(scheme: Scheme, topology: impl Into<Topology>) -> Self {
        Self {
            scheme,
            topology: topology.into(),
            workloads: vec![Workload::Poisson { sizes: Sizes::CACHE_FOLLOWER, load: 0.7 }],
            time: Ps::from_ns(1_000_000),
            warm_up: Ps::from_ns(100_000),
            drain: Ps::from_ns(100_000_000),
            seed: 1,
            window: 160,
            changes: Changes::default(),
        }
    }

    /// What its network is made with.
    #[must_use]
    pub fn config(&self) -> Config {
        Config {
            topology: self.topology.clone(),
            host: self.host(),
            switch: self.switch(),
            loss: self.changes.loss,
            flow_max: self.workloads.iter().map(Workload::largest).max().unwrap_or(1),
            seed: self.seed,
        }
    }

    /// Its hosts.
    #[must_use]
    pub fn host(&self) -> HostConfig {
        let mut host = self.scheme.host(self.window);
        let changes = &self.changes;
        match &mut host {
            HostConfig::Engine(host) => {
                host.congestion = changes.congestion.unwrap_or(host.congestion);
                host.tuning = changes.tuning.unwrap_or(host.tuning);
                host.recovery = changes.recovery.unwrap_or(host.recovery);
                host.recovery_contexts =
                    changes.recovery_contexts.unwrap_or_else(|| recovery_contexts(self.topology.hosts()));
                host.mtu = changes.mtu.unwrap_or(host.mtu);
                (host.message, host.depth) = changes.messages.unwrap_or((host.message, host.depth));
                host.turn = changes.turn.unwrap_or(host.turn);
            }
            HostConfig::Model(host) => {
                host.control = changes.control.unwrap_or(host.control);
                host.notify_gap = changes.notify_gap.unwrap_or(host.notify_gap);
                host.cut_gap = changes.cut_gap.unwrap_or(host.cut_gap);
                host.mtu = changes.mtu.unwrap_or(host.mtu);
                host.turn = changes.turn.unwrap_or(host.turn);
            }
        }
        host
    }

    /// Says whether its workloads fit its network and its times.
    ///
    /// # Errors
    /// [`WorkloadError`].
    pub fn check(&self) -> Result<(), WorkloadError> {
        self.workloads.iter().try_for_each(|workload| workload.check(self.topology.hosts()))?;
        let micros = |time: Ps| time.0 / 1_000_000;
        if let Some((what, at)) = self.workloads.iter().find_map(|workload| workload.late(self.time)) {
            let (at_us, time_us) = (micros(at), micros(self.time));
            return Err(WorkloadError::Late { what, at_us, time_us });
        }
        if self.warm_up >= self.time {
            let (warm_up_us, time_us) = (micros(self.warm_up), micros(self.time));
            return Err(WorkloadError::WarmUp { warm_up_us, time_us });
        }
        Ok(())
    }

    /// Which of `changes` its hosts would leave out of account, as files name them: those of the
    /// engine where hosts are models, the other way, and those of DCQCN where nothing is paced.
    #[must_use]
    pub fn unused(&self, changes: &Changes) -> Vec<&'static str> {
        let of_the_engine = [
            ("congestion", changes.congestion.is_some()),
            ("recovery", changes.recovery.is_some()),
            ("rtt_reference_ns", changes.tuning.is_some()),
            ("recovery_contexts", changes.recovery_contexts.is_some()),
            ("message_bytes", changes.messages.is_some()),
        ];
        let of_models = [
            ("control", changes.control.is_some()),
            ("notify_gap_us", changes.notify_gap.is_some()),
            ("cut_gap_us", changes.cut_gap.is_some()),
        ];
        let others = match self.host() {
            HostConfig::Engine(_) => of_models.to_vec(),
            HostConfig::Model(host) if host.control == Control::PacedDcqcn => of_the_engine.to_vec(),
            HostConfig::Model(_) => [&of_the_engine[..], &of_models[1..]].concat(),
        };
        others.iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| *name).collect()
    }

    fn switch(&self) -> SwitchConfig {
        let mut switch = self.scheme.switch();
        switch.spray = self.changes.spray;
        switch.marks = self.changes.marks.unwrap_or(switch.marks);
        if let Some(pool) = self.changes.pool {
            switch.pool = pool;
            if let Some(pfc) = &mut switch.pfc {
                pfc.pool = pool;
            }
        }
        if let Some(mark) = self.changes.mark {
            let Marks { from, until, most } = switch.marks;
            switch.marks = Marks { from: mark, until: until * mark / from.max(1), most };
        }
        switch
    }

    /// The network before anything has happened, made with `config`: [`Plan::config`], or what a
    /// caller made of it. As many `threads` will play it; the results do not depend on it.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn fabric(&self, config: Config, threads: usize) -> Result<Fabric, HostError> {
        let flows = |host| arrivals(&self.workloads, self.seed, &self.topology, host, self.time);
        Fabric::new(config, threads, flows)
    }

    /// Lets everything happen, until `watch`, which looks every 5 us of virtual time, says `false`.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn play(
        &self,
        fabric: &mut Fabric,
        mut watch: impl FnMut(&Fabric) -> bool,
    ) -> Result<Rates, HostError> {
        let last = self.time + self.drain;
        let arrived = |fabric: &Fabric| {
            (0..).zip(&self.workloads).map(|(number, _)| fabric.acknowledged(number)).collect()
        };
        let mut rates = Rates::default();
        let mut until = Ps(0);
        while until < last {
            let stop = [self.warm_up, self.time].into_iter().filter(|stop| *stop > until).min();
            if until == self.warm_up {
                rates.begun = Some((until, arrived(fabric)));
            }
            until = (until + STEP).min(last).min(stop.unwrap_or(last));
            let more = fabric.run(until)?;
            if until == self.time || !more && rates.ended.is_none() {
                rates.ended = Some((until, arrived(fabric)));
            }
            if !more || !watch(fabric) {
                break;
            }
        }
        Ok(rates)
    }

    /// Makes the network, plays it to its end in one thread, and sums up.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn row(&self) -> Result<Row, HostError> {
        let mut fabric = self.fabric(self.config(), 1)?;
        let rates = self.play(&mut fabric, |_| true)?;
        Ok(self.sum_up(&fabric, &rates))
    }

    /// What a run amounts to, without the flows that began in the warm-up.
    #[must_use]
    pub fn sum_up(&self, fabric: &Fabric, rates: &Rates) -> Row {
        Row {
            scheme: self.scheme,
            hosts: self.topology.hosts(),
            summary: Summary::of(fabric, self.warm_up, None),
            workloads: (0..)
                .zip(&self.workloads)
                .map(|(number, _)| (Summary::of(fabric, self.warm_up, Some(number)), rates.gbps(number)))
                .collect(),
            busiest: fabric.busiest(),
            packets: fabric.packets(),
            lost: fabric.links().iter().map(|link| u64::from(link.lost)).sum(),
            switches: fabric.switch_stats(),
            hash: fabric.hash(),
        }
    }
}

/// How fast workloads were from the warm-up's end to that of the time in which flows begin.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// When, and bytes of each workload that had arrived then.
    begun: Option<(Ps, Vec<u64>)>,
    ended: Option<(Ps, Vec<u64>)>,
}

impl Rates {
    /// Gigabits a second of payload of a workload; 0 if the run was too short.
    #[must_use]
    pub fn gbps(&self, workload: u8) -> f64 {
        let (Some((from, before)), Some((until, after))) = (&self.begun, &self.ended) else { return 0.0 };
        let of = |bytes: &[u64]| bytes.get(usize::from(workload)).copied().unwrap_or(0);
        let ps = until.since(*from).0;
        if ps == 0 { 0.0 } else { of(after).saturating_sub(of(before)) as f64 * 8000.0 / ps as f64 }
    }
}
