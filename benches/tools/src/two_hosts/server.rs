//! Host 1: it has the memory, and the receives, and posts nothing else.

use super::player::{ALL, MEMORY, tenants};
use super::terms::Terms;
use crate::error::Result;
use crate::interrupt;
use srnic_workload::isolate::Policy;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use verbs_api::{
    CompletionQueue, Connecting, ConnectionRequest, Device, Listener, MemoryRegion, ProtectionDomain,
    QueueCaps, QueuePair, RecvRequest, WcStatus,
};

/// Where it listens.
pub const PORT: u16 = 7176;
/// Turns between two looks for who comes and goes.
const LOOK_INTERVAL: u32 = 256;
/// How long nothing has happened when it begins to sleep between its turns.
const REST_AFTER: Duration = Duration::from_millis(50);
const REST: Duration = Duration::from_millis(2);

/// Completions of receives that wait at most: of all queue pairs there may be.
const COMPLETIONS: u32 = 1 << 18;

/// Serves on a device until it is over, or Ctrl-C.
///
/// # Errors
/// [`Error::Verbs`](crate::error::Error::Verbs).
pub fn serve(device: &Device, policy: Option<&Policy>, is_over: &AtomicBool) -> Result<()> {
    let domains = tenants(device, policy)?;
    let memory =
        domains.iter().map(|pd| pd.register(MEMORY, ALL)).collect::<std::result::Result<Vec<_>, _>>()?;
    let mut host = Host {
        domains,
        memory,
        cq: device.create_cq(COMPLETIONS)?,
        coming: Vec::new(),
        served: HashMap::new(),
        used: HashMap::new(),
    };
    let listener = Listener::bind(device, PORT)?;
    let mut active = Instant::now();
    while !is_over.load(Ordering::Relaxed) && interrupt::check().is_ok() {
        while let Some(request) = listener.poll() {
            host.accept(request)?;
        }
        host.served.retain(|_, served| !served.pair.is_disconnected());
        let mut did_something = false;
        for _ in 0..LOOK_INTERVAL {
            let turn = device.progress();
            did_something |= turn.received + turn.sent > 0;
            // It may send at once, and needs its receives again.
            if !host.coming.is_empty() {
                host.arrive();
            }
            host.receive();
        }
        if did_something {
            active = Instant::now();
        } else if active.elapsed() > REST_AFTER {
            device.rest(REST);
        }
    }
    Ok(())
}

/// What host 1 has, and who is connected to it.
struct Host {
    domains: Vec<ProtectionDomain>,
    memory: Vec<MemoryRegion>,
    /// Of all receives: it is polled, which may have the engine take in more, only once all that
    /// were used are posted again.
    cq: CompletionQueue,
    coming: Vec<(Connecting, Terms)>,
    /// By the numbers of their queue pairs.
    served: HashMap<u32, Served>,
    /// Receives that were used of connections that are still coming.
    used: HashMap<u32, u32>,
}

/// A connection, and the receives that it takes.
struct Served {
    pair: QueuePair,
    terms: Terms,
    next_receive: Instant,
    owed: u32,
}

impl Host {
    fn accept(&mut self, request: ConnectionRequest) -> Result<()> {
        let terms = Terms::read(request.private_data());
        let Some(terms) = terms.filter(|terms| terms.tenant < self.domains.len()) else {
            return Ok(request.reject(b"these are no terms")?);
        };
        let caps = QueueCaps {
            max_send_wr: 1,
            max_recv_wr: terms.receives.max(1),
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let builder = self.domains[terms.tenant].queue_pair(&self.cq, &self.cq);
        let mut pair = terms.attributes(builder).caps(caps).build()?;
        let scatter = [self.memory[terms.tenant].slice(..terms.bytes)?];
        for _ in 0..terms.receives {
            pair.post_recv(&RecvRequest { wr_id: 0, scatter: &scatter })?;
        }
        let told = self.memory[terms.tenant].remote().to_bytes();
        // A client that left meanwhile is nobody's failure.
        if let Ok(connecting) = request.with_private_data(&told).accept(pair) {
            self.coming.push((connecting, terms));
        }
        Ok(())
    }

    /// Takes over who is connected.
    fn arrive(&mut self) {
        for (mut connecting, terms) in std::mem::take(&mut self.coming) {
            match connecting.poll() {
                Ok(Some(pair)) => {
                    let owed = self.used.remove(&pair.qpn()).unwrap_or(0);
                    let served = Served { pair, terms, next_receive: Instant::now(), owed };
                    self.served.insert(served.pair.qpn(), served);
                }
                Ok(None) => self.coming.push((connecting, terms)),
                Err(_) => {}
            }
        }
    }

    /// Posts receives again that were used, as fast as their terms have it.
    fn receive(&mut self) {
        for served in self.served.values_mut().filter(|served| served.owed > 0) {
            served.post_owed(&self.memory);
        }
        while let Some(done) = self.cq.poll() {
            if done.status != WcStatus::Success {
                continue;
            }
            match self.served.get_mut(&done.qpn) {
                Some(served) => {
                    served.owed += 1;
                    served.post_owed(&self.memory);
                }
                None => *self.used.entry(done.qpn).or_default() += 1,
            }
        }
    }
}

impl Served {
    fn post_owed(&mut self, memory: &[MemoryRegion]) {
        while self.owed > 0 && (self.terms.receive_ns == 0 || Instant::now() >= self.next_receive) {
            let Ok(data) = memory[self.terms.tenant].slice(..self.terms.bytes) else { break };
            if self.pair.post_recv(&RecvRequest { wr_id: 0, scatter: &[data] }).is_err() {
                break;
            }
            self.owed -= 1;
            self.next_receive = Instant::now() + Duration::from_nanos(self.terms.receive_ns.into());
        }
    }
}
