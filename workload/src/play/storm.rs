//! An entry that posts nothing: calls that change objects of a device, and packets that no queue
//! pair takes.

use super::domains::Domains;
use super::{EntryOutcome, Traffic};
use crate::scenario::{Entry, Op, ScenarioError};
use datapath::engine::{CreateError, QpConfig};
use datapath::memory::{Access, HeapBacking, ProtectionDomainId};
use datapath::qp::state::QpType;
use datapath::queue::QueueCaps;
use datapath::sched::TenantId;
use datapath::time::Time;
use simnet::{Forger, LinkId, NodeId, QpOptions, Rig};
use std::sync::Arc;
use wire::{Opcode, Psn, Reth, WireMode};

/// Where the memory of a storm lies: behind that of everybody else.
const IOVA: u64 = 1 << 50;
/// A queue pair number that no engine of a scenario hands out: the last but that of groups.
const NOBODY: u32 = 0xFF_FFFE;
/// Packets before the PSN that its queue pair expects.
const FAR: u32 = 1 << 22;

/// What it does.
enum Deed {
    Create(ProtectionDomainId),
    Register(ProtectionDomainId, Arc<HeapBacking>),
    /// Puts this frame on the link.
    Send(Vec<u8>),
}

/// An entry without requests. It does one thing after the other.
pub struct Storm {
    entry: usize,
    what: Entry,
    deed: Deed,
    /// The tenant that calls.
    tenant: TenantId,
    control_ns: u64,
    next: Time,
    done: u64,
    stopped: bool,
}

impl Storm {
    /// The storm of an entry.
    pub fn new(
        rig: &mut Rig,
        number: usize,
        entry: &Entry,
        domains: &Domains<'_>,
        control_ns: u64,
    ) -> Result<Self, ScenarioError> {
        let domain = domains.of(entry, entry.from);
        let longest = entry.sizes.clone().sizes()?.largest() as usize;
        let deed = match entry.op {
            Op::Create => Deed::Create(domain),
            Op::Register => Deed::Register(domain, Arc::new(HeapBacking::new(longest.max(1)))),
            _ => Deed::Send(frame(rig, entry, domains)?),
        };
        let next = rig.now().after(u64::from(entry.start_us) * 1000);
        let tenant = domains.tenant_of(rig, entry, entry.from);
        let what = entry.clone();
        Ok(Self { entry: number, what, deed, tenant, control_ns, next, done: 0, stopped: false })
    }

    /// The next one begins when the host has done this one, and what waited for it meanwhile. False
    /// if it must wait for its tenant's cap.
    fn call(&mut self, rig: &mut Rig) -> bool {
        let (node, now) = (NodeId(self.what.from), rig.now());
        let core = rig.engine_mut(node).core_mut();
        if let Err(CreateError::ControlRate { wait_ns, .. }) = core.admit_call(self.tenant, now) {
            self.next = now.after(wait_ns.max(1));
            return false;
        }
        match &self.deed {
            Deed::Create(domain) => create_and_destroy(core, *domain),
            Deed::Register(domain, memory) => {
                let memory = Arc::clone(memory);
                let key = core.memory_mut().register(*domain, memory, IOVA, Access::LOCAL_WRITE);
                if let Ok(key) = key {
                    core.memory_mut().deregister(key);
                }
            }
            Deed::Send(_) => {}
        }
        // There and away again.
        let over = rig.occupy(node, 2 * self.control_ns);
        self.next = now.after(self.what.pace_ns.into()).max(over.after(1));
        true
    }
}

fn create_and_destroy(core: &mut datapath::engine::Core, pd: ProtectionDomainId) {
    let Ok((send_cq, _send)) = core.create_cq(16) else { return };
    let Ok((recv_cq, _receive)) = core.create_cq(16) else {
        core.destroy_cq(send_cq);
        return;
    };
    let caps =
        QueueCaps { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let config =
        QpConfig { qp_type: QpType::Rc, gsi: false, pd, send_cq, recv_cq, srq: None, caps, window: 64 };
    if let Ok(handles) = core.create_qp(&config) {
        core.destroy_qp(handles.qpn);
    }
    core.destroy_cq(send_cq);
    core.destroy_cq(recv_cq);
}

/// A WRITE of one packet that its receiver must drop.
fn frame(rig: &mut Rig, entry: &Entry, domains: &Domains<'_>) -> Result<Vec<u8>, ScenarioError> {
    let options = |host| QpOptions {
        pd: Some(domains.of(entry, host)),
        pmtu: entry.pmtu().unwrap_or(wire::Pmtu::B1024),
        window: entry.window,
        ..QpOptions::default()
    };
    let (a, b) = (
        rig.create_qp(NodeId(entry.from), options(entry.from)),
        rig.create_qp(NodeId(entry.to), options(entry.to)),
    );
    rig.connect(a, b);
    let len = (entry.sizes.clone().sizes()?.largest()).min(entry.mtu);
    let mut forger = Forger::new(rig, a, b);
    if entry.op == Op::BadQpn {
        forger.dest_qpn = NOBODY;
    }
    let psn = Psn::new(rig.qp_options(a).sq_psn.wrapping_sub(FAR));
    let mut repr = forger.repr(WireMode::Srnic, Opcode::RcWriteOnly, psn);
    repr.reth = Some(Reth { va: IOVA, rkey: 0, dma_len: len });
    Ok(forger.frame(&repr, &vec![0; len as usize]))
}

impl Traffic for Storm {
    fn entry(&self) -> usize {
        self.entry
    }

    fn step(&mut self, rig: &mut Rig, may_post: bool) {
        while may_post && self.next <= rig.now() {
            if let Deed::Send(frame) = &self.deed {
                let now = rig.now();
                rig.net.inject(now, LinkId::Up(NodeId(self.what.from)), frame.clone());
                self.next = self.next.after(self.what.pace_ns.into());
            } else if !rig.may_occupy(NodeId(self.what.from)) || !self.call(rig) {
                break;
            }
            self.done += 1;
        }
    }

    fn wakes_at(&self, now: Time) -> Option<Time> {
        Some(self.next).filter(|at| *at > now && !self.stopped)
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn moves_on(&self) -> bool {
        true
    }

    fn tell(&self, told: &mut EntryOutcome) {
        told.requests += self.done;
        told.shares.push(self.done);
    }
}
