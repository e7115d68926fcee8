//! A run by its parameters: a scheme, a network, and the flows on it.

use crate::clock::Ps;
use crate::fabric::{Config, Fabric};
use crate::host::HostError;
use crate::scheme::Scheme;
use crate::summary::Row;
use crate::switch::{Marks, SwitchConfig};
use crate::topology::FatTree;
use crate::workload::{Poisson, Sizes};

/// How often a run says where it stands, in virtual time.
const STEP: Ps = Ps::from_ns(5_000);

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Hosts and switches.
    pub scheme: Scheme,
    /// The network.
    pub tree: FatTree,
    /// Sizes of flows.
    pub sizes: Sizes,
    /// Part of a host's link that its flows take.
    pub load: f64,
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
    /// Bytes of the pool of a switch, if not the scheme's.
    pub pool: Option<u64>,
    /// Bytes from which on packets are marked, if not the scheme's; RED's upper bound moves alike.
    pub mark: Option<u64>,
}

impl Plan {
    /// The workload of SRNIC's Figure 12 with `scheme` on `tree`: 1 ms of load 0.7.
    #[must_use]
    pub const fn new(scheme: Scheme, tree: FatTree) -> Self {
        Self {
            scheme,
            tree,
            sizes: Sizes::CACHE_FOLLOWER,
            load: 0.7,
            time: Ps::from_ns(1_000_000),
            warm_up: Ps::from_ns(100_000),
            drain: Ps::from_ns(100_000_000),
            seed: 1,
            window: 160,
            pool: None,
            mark: None,
        }
    }

    /// What its network is made with.
    #[must_use]
    pub fn config(&self) -> Config {
        Config {
            tree: self.tree,
            host: self.scheme.host(self.window, self.tree.host_ps_per_byte),
            switch: self.switch(),
            flow_max: self.sizes.largest(),
            seed: self.seed,
        }
    }

    fn switch(&self) -> SwitchConfig {
        let mut switch = self.scheme.switch();
        if let Some(pool) = self.pool {
            switch.pool = pool;
            if let Some(pfc) = &mut switch.pfc {
                pfc.pool = pool;
            }
        }
        if let Some(mark) = self.mark {
            let Marks { from, until, most } = switch.marks;
            switch.marks = Marks { from: mark, until: until * mark / from.max(1), most };
        }
        switch
    }

    /// The network before anything has happened, made with `config`: [`Plan::config`], or what a
    /// caller made of it.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn fabric(&self, config: Config) -> Result<Fabric, HostError> {
        let Self { seed, sizes, load, time, tree, .. } = *self;
        Fabric::new(config, |host| {
            let flows = Poisson::new(seed, (host, tree.hosts()), sizes, load, tree.host_ps_per_byte);
            Box::new(flows.take_while(move |flow| flow.at < time))
        })
    }

    /// Lets everything happen, until `watch`, which looks every 5 us of virtual time, says `false`.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn play(&self, fabric: &mut Fabric, mut watch: impl FnMut(&Fabric) -> bool) -> Result<(), HostError> {
        let last = self.time + self.drain;
        let mut until = Ps(0);
        while until < last {
            until = (until + STEP).min(last);
            if !fabric.run(until)? || !watch(fabric) {
                break;
            }
        }
        Ok(())
    }

    /// Makes the network, plays it to its end, and sums up.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn row(&self) -> Result<Row, HostError> {
        let mut fabric = self.fabric(self.config())?;
        self.play(&mut fabric, |_| true)?;
        Ok(self.scheme.row(&fabric, self.warm_up))
    }
}
