//! Host 1: it has the memory, and the receives, and posts nothing else.

use super::player::{ALL, MEMORY, tenants};
use super::terms::Terms;
use crate::error::Result;
use crate::interrupt;
use srnic_workload::isolate::Policy;
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

/// A connection, and the receives that it takes.
struct Served {
    pair: QueuePair,
    cq: CompletionQueue,
    terms: Terms,
    next_receive: Instant,
    owed: u32,
}

/// Serves on a device until it is over, or Ctrl-C.
///
/// # Errors
/// [`Error::Verbs`].
pub fn serve(device: &Device, policy: Option<&Policy>, is_over: &AtomicBool) -> Result<()> {
    let domains = tenants(device, policy)?;
    let memory =
        domains.iter().map(|pd| pd.register(MEMORY, ALL)).collect::<std::result::Result<Vec<_>, _>>()?;
    let listener = Listener::bind(device, PORT)?;
    let (mut coming, mut served) = (Vec::new(), Vec::new());
    let mut active = Instant::now();
    while !is_over.load(Ordering::Relaxed) && interrupt::check().is_ok() {
        while let Some(request) = listener.poll() {
            coming.extend(accept(device, request, &domains, &memory)?);
        }
        arrive(&mut coming, &mut served);
        let mut did_something = false;
        for _ in 0..LOOK_INTERVAL {
            let turn = device.progress();
            did_something |= turn.received + turn.sent > 0;
            // It may send at once, and needs its receives again.
            if !coming.is_empty() {
                arrive(&mut coming, &mut served);
            }
            served.iter_mut().for_each(|served: &mut Served| served.receive(&memory));
        }
        if did_something {
            active = Instant::now();
        } else if active.elapsed() > REST_AFTER {
            device.rest(REST);
        }
    }
    Ok(())
}

/// One that comes, with its completion queue and its terms.
type Coming = (Connecting, CompletionQueue, Terms);

fn accept(
    device: &Device,
    request: ConnectionRequest,
    domains: &[ProtectionDomain],
    memory: &[MemoryRegion],
) -> Result<Option<Coming>> {
    let Some(terms) = Terms::read(request.private_data()).filter(|terms| terms.tenant < domains.len()) else {
        request.reject(b"these are no terms")?;
        return Ok(None);
    };
    let cq = device.create_cq(terms.receives + 16)?;
    let caps = QueueCaps {
        max_send_wr: 1,
        max_recv_wr: terms.receives.max(1),
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline: 0,
    };
    let mut pair = terms.attributes(domains[terms.tenant].queue_pair(&cq, &cq)).caps(caps).build()?;
    for _ in 0..terms.receives {
        post(&terms, memory, |request| pair.post_recv(request))?;
    }
    let told = memory[terms.tenant].remote().to_bytes();
    let connecting = request.with_private_data(&told).accept(pair);
    // A client that left meanwhile is nobody's failure.
    Ok(connecting.ok().map(|connecting| (connecting, cq, terms)))
}

fn post(
    terms: &Terms,
    memory: &[MemoryRegion],
    post: impl FnOnce(&RecvRequest<'_>) -> std::result::Result<(), verbs_api::Error>,
) -> Result<()> {
    let scatter = [memory[terms.tenant].slice(..terms.bytes)?];
    Ok(post(&RecvRequest { wr_id: 0, scatter: &scatter })?)
}

fn arrive(coming: &mut Vec<Coming>, served: &mut Vec<Served>) {
    let mut rest = Vec::new();
    for (mut connecting, cq, terms) in coming.drain(..) {
        match connecting.poll() {
            Ok(Some(pair)) => served.push(Served { pair, cq, terms, next_receive: Instant::now(), owed: 0 }),
            Ok(None) => rest.push((connecting, cq, terms)),
            Err(_) => {}
        }
    }
    *coming = rest;
    served.retain(|served| !served.pair.is_disconnected());
}

impl Served {
    /// Posts receives again that were used, as fast as its terms have it.
    fn receive(&mut self, memory: &[MemoryRegion]) {
        if self.terms.receives == 0 {
            return;
        }
        while let Some(done) = self.cq.poll() {
            self.owed += u32::from(done.status == WcStatus::Success);
        }
        while self.owed > 0 && (self.terms.receive_ns == 0 || Instant::now() >= self.next_receive) {
            let pair = &mut self.pair;
            if post(&self.terms, memory, |request| pair.post_recv(request)).is_err() {
                break;
            }
            self.owed -= 1;
            self.next_receive = Instant::now() + Duration::from_nanos(self.terms.receive_ns.into());
        }
    }
}
