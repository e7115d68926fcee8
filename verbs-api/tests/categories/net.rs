//! A connection, and how the tests look at it.

use crate::host::wait::until;
use crate::host::{Host, complete};
use crate::join::join;
use crate::lan::Lan;
use verbs_api::{
    Access, AsyncEvent, Completion, CongestionAlgorithm, Counters, MemoryRegion, QpState, QueuePair,
    QueuePairBuilder, RecvRequest, SendData, SendRequest, Sge, WcStatus,
};

/// Everything that a peer can be allowed.
pub const ALL: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

/// Two hosts, and a queue pair on each, connected.
pub struct Net {
    pub hosts: [Host; 2],
    pub pairs: [QueuePair; 2],
}

/// A queue pair that allows its peer everything, and gives up only after ten seconds: a busy
/// machine may pause any thread for a while.
pub fn usual(host: &Host) -> QueuePairBuilder {
    host.pd.queue_pair(&host.cq, &host.cq).access(ALL).congestion(CongestionAlgorithm::Fixed).timeout(18)
}

/// Connects one queue pair of each host.
pub fn connect(
    hosts: &[Host; 2],
    tune: impl Fn(usize, QueuePairBuilder) -> QueuePairBuilder,
) -> [QueuePair; 2] {
    join([0, 1].map(|side: usize| tune(side, usual(&hosts[side])).build().expect("a queue pair")))
}

impl Net {
    pub fn new(lan: Lan) -> Self {
        Self::with(lan, |_, builder| builder)
    }

    /// With queue pairs, of side 0 and 1, that are not the usual ones.
    pub fn with(lan: Lan, tune: impl Fn(usize, QueuePairBuilder) -> QueuePairBuilder) -> Self {
        let hosts = lan.hosts();
        let pairs = connect(&hosts, tune);
        Self { hosts, pairs }
    }

    /// New queue pairs in place of those that failed.
    pub fn reconnect(&mut self) {
        self.pairs = connect(&self.hosts, |_, builder| builder);
    }

    #[track_caller]
    pub fn post(&mut self, side: usize, request: &SendRequest<'_>) {
        self.pairs[side].post_send(request).expect("posted");
    }

    #[track_caller]
    pub fn receive(&mut self, side: usize, wr_id: u64, scatter: &[Sge]) {
        self.pairs[side].post_recv(&RecvRequest { wr_id, scatter }).expect("posted");
    }

    /// The next completion of a side.
    #[track_caller]
    pub fn done(&mut self, side: usize) -> Completion {
        let [one, two] = &mut self.hosts;
        if side == 0 { complete(one, two) } else { complete(two, one) }
    }

    /// How the next request of a side ended.
    #[track_caller]
    pub fn ended(&mut self, side: usize) -> (u64, WcStatus) {
        let done = self.done(side);
        (done.wr_id, done.status)
    }

    /// The next event of a side.
    #[track_caller]
    pub fn event(&self, side: usize) -> AsyncEvent {
        let mut event = None;
        self.wait_until("an event", || {
            event = self.hosts[side].device.poll_event();
            event.is_some()
        });
        event.expect("waited for")
    }

    /// Waits for something to be counted at a side.
    #[track_caller]
    pub fn sees(&self, side: usize, what: &str, condition: impl Fn(&Counters) -> bool) {
        self.wait_until(what, || condition(&self.hosts[side].device.counters()));
    }

    /// Waits until both queue pairs are in ERR.
    #[track_caller]
    pub fn both_fail(&self) {
        self.wait_until("both in ERR", || self.pairs.iter().all(|pair| pair.state() == QpState::Err));
    }

    #[track_caller]
    pub fn wait_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        until(what, || {
            if condition() {
                return Some(());
            }
            self.hosts.iter().for_each(|host| {
                host.device.progress();
            });
            None
        });
    }
}

/// What is in a region.
pub fn bytes(region: &MemoryRegion) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    region.read(0, &mut bytes).expect("inside");
    bytes
}

/// All of a region.
pub fn whole(region: &MemoryRegion) -> [Sge; 1] {
    [region.slice(..).expect("all of it")]
}

/// A SEND of nothing that says when it is done.
pub fn nothing() -> SendRequest<'static> {
    SendRequest::send(SendData::Inline(&[])).signaled()
}

/// Bytes that no misplaced copy repeats by chance.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).to_le_bytes()[0]).collect()
}
