//! One queue pair of an entry: what it posts, and what came of it.

use super::domains::Domains;
use super::{EntryOutcome, Traffic};
use crate::scenario::{Entry, Op, ScenarioError, Service};
use datapath::qp::state::{QpState, QpType};
use datapath::queue::{PostError, QueueCaps, WcStatus};
use datapath::sched::TenantId;
use datapath::time::Time;
use simnet::{NodeId, Qp, QpOptions, Region, Rig, Rng, Span, Work};
use srnic_fabric::workload::Sizes;
use std::collections::VecDeque;

/// Bytes of memory of an entry at most, on each host: requests share memory beyond that.
const MEMORY_MAX: usize = 1 << 18;
/// Bytes of an atomic.
const WORD: usize = 8;
/// Between the first PSNs of two lives of a queue pair.
const PSN_STEP: u32 = 0x10_0000;

/// A queue pair that posts, and its peer.
pub struct Flow {
    entry: usize,
    what: Entry,
    sizes: Sizes,
    rng: Rng,
    ends: [Qp; 2],
    memory: Memory,
    /// Of requests under way, the oldest first: bytes, and when they were posted.
    under_way: VecDeque<(u64, Time)>,
    posted: u64,
    done: u64,
    receives: [u64; 2],
    next_post: Time,
    next_receive: Time,
    bytes: u64,
    requests: u64,
    errors: u64,
    latencies: Vec<u64>,
    /// What was done when posting ended.
    stopped: Option<u64>,
    /// How often its ends have connected again, and what that takes of a host.
    lives: u32,
    control_ns: u64,
    /// The tenants of its ends, and which of them have admitted that they connect again.
    tenants: [TenantId; 2],
    admitted: [bool; 2],
}

/// Where the data of an entry are, on both hosts.
#[derive(Clone)]
struct Memory {
    here: Vec<Region>,
    there: Vec<Region>,
    /// Bytes of a place, and places in a region.
    places: (usize, usize),
}

impl Memory {
    fn new(rig: &mut Rig, entry: &Entry, domains: &Domains<'_>, longest: usize) -> Self {
        let regions = entry.regions as usize;
        let wanted = (entry.qps as usize * entry.depth as usize).div_ceil(regions);
        let places = wanted.min(MEMORY_MAX / (longest * regions)).max(1);
        let mut make =
            |node| (0..regions).map(|_| domains.region(rig, entry, node, places * longest)).collect();
        Self { here: make(entry.from), there: make(entry.to), places: (longest, places) }
    }

    /// The places of request `number`, here and there.
    fn of(&self, number: u64, len: usize) -> [Span; 2] {
        let (longest, places) = self.places;
        let regions = self.here.len() as u64;
        let region = usize::try_from(number % regions).unwrap_or(0);
        let place = usize::try_from(number / regions % places as u64).unwrap_or(0);
        [&self.here, &self.there].map(|regions| regions[region].at(place * longest, len))
    }
}

/// A span in so many elements, of which none is empty.
fn elements(span: Span, count: u32) -> Vec<Span> {
    let count = (count as usize).min(span.len.max(1));
    let step = span.len.div_ceil(count).max(1);
    let part = |index: usize| {
        let from = (index * step).min(span.len);
        span.region.at(span.offset + from, step.min(span.len - from))
    };
    (0..count).map(part).filter(|part| part.len > 0 || count == 1).collect()
}

impl Flow {
    /// All queue pairs of an entry, connected.
    pub fn all_of(
        rig: &mut Rig,
        number: usize,
        entry: &Entry,
        domains: &Domains<'_>,
        control_ns: u64,
    ) -> Result<Vec<Self>, ScenarioError> {
        let sizes = entry.sizes.clone().sizes()?;
        let longest = if entry.op == Op::Atomic { WORD } else { (sizes.largest() as usize).max(WORD) };
        let memory = Memory::new(rig, entry, domains, longest);
        let options = options(entry)?;
        let begin = rig.now().after(u64::from(entry.start_us) * 1000);
        let flow = |index: u32| {
            let [a, b] = [entry.from, entry.to].map(|host| {
                rig.create_qp(NodeId(host), QpOptions { pd: Some(domains.of(entry, host)), ..options })
            });
            rig.connect(a, b);
            Self {
                entry: number,
                what: entry.clone(),
                sizes: sizes.clone(),
                rng: Rng::new(u64::from(index) << 32 | number as u64),
                ends: [a, b],
                memory: memory.clone(),
                under_way: VecDeque::new(),
                posted: 0,
                done: 0,
                receives: [0; 2],
                next_post: begin,
                next_receive: rig.now(),
                bytes: 0,
                requests: 0,
                errors: 0,
                latencies: Vec::new(),
                stopped: None,
                lives: 0,
                control_ns,
                tenants: [entry.from, entry.to].map(|host| domains.tenant_of(rig, entry, host)),
                admitted: [false; 2],
            }
        };
        Ok((0..entry.qps).map(flow).collect())
    }

    /// Its queue pairs.
    pub const fn ends(&self) -> [Qp; 2] {
        self.ends
    }

    /// Connects again if an end has failed.
    fn connect_again(&mut self, rig: &mut Rig) {
        let has_failed = |qp: &Qp| rig.state(*qp) == QpState::Err;
        let may_call = |qp: &Qp| rig.may_occupy(qp.node());
        if !self.what.reconnect || !self.ends.iter().any(has_failed) || !self.ends.iter().all(may_call) {
            return;
        }
        let now = rig.now();
        for (end, (tenant, admitted)) in self.ends.iter().zip(self.tenants.iter().zip(&mut self.admitted)) {
            *admitted = *admitted || rig.engine_mut(end.node()).core_mut().admit_call(*tenant, now).is_ok();
        }
        if self.admitted != [true; 2] {
            return;
        }
        self.admitted = [false; 2];
        self.lives += 1;
        let [a, b] = self.ends;
        let psn = self.lives.wrapping_mul(PSN_STEP) & 0xFF_FFFF;
        rig.reconnect(a, psn, b, psn);
        rig.occupy(a.node(), self.control_ns);
        rig.occupy(b.node(), self.control_ns);
        self.under_way.clear();
        (self.posted, self.done, self.receives) = (0, 0, [0; 2]);
    }

    /// Requests under way whose completion must come.
    fn signaled_left(&self) -> u64 {
        let every = u64::from(self.what.signaled);
        self.posted / every - self.done / every
    }

    /// How many requests it may post now.
    fn room(&self) -> u64 {
        let depth = u64::from(self.what.depth);
        // Who does not look at completions does not know what is under way: the queue says no.
        if self.what.polled { depth - (self.under_way.len() as u64).min(depth) } else { depth }
    }

    fn take(&mut self, rig: &mut Rig) {
        if self.what.polled {
            rig.poll_qp(self.ends[0]);
        }
        rig.poll_qp(self.ends[1]);
        let (mut sends, from_left) = rig.take_completions(self.ends[0]);
        let (to_left, received) = rig.take_completions(self.ends[1]);
        let ours = from_left.iter().chain(&to_left).chain(&received);
        self.fail(ours.filter(|done| done.status != WcStatus::Success).count() as u64);
        self.receives[1] += received.len() as u64;
        for done in sends.drain(..) {
            if done.status != WcStatus::Success {
                self.fail(1);
                continue;
            }
            while self.done <= done.wr_id {
                let Some((bytes, at)) = self.under_way.pop_front() else { break };
                if self.done == done.wr_id {
                    self.latencies.push(rig.now().since(at));
                }
                if self.stopped.is_none() {
                    self.bytes += bytes;
                    self.requests += 1;
                }
                self.done += 1;
            }
        }
    }

    /// Requests or receives have failed; of one that connects again that is no news.
    const fn fail(&mut self, count: u64) {
        if !self.what.reconnect {
            self.errors += count;
        }
    }

    fn post_receives(&mut self, rig: &mut Rig) {
        if !self.what.op.takes_receive() {
            return;
        }
        let ahead = u64::from(self.what.receives_ahead());
        while self.receives[0] - self.receives[1] < ahead && rig.now() >= self.next_receive {
            let (longest, _) = self.memory.places;
            let place = self.memory.of(self.receives[0], longest)[1];
            if rig.try_post_recv(self.ends[1], &elements(place, self.what.elements)).is_err() {
                break;
            }
            self.receives[0] += 1;
            if self.what.receive_ns > 0 {
                self.next_receive = rig.now().after(self.what.receive_ns.into());
            }
        }
    }

    fn post(&mut self, rig: &mut Rig, count: u64) {
        for _ in 0..count {
            #[expect(clippy::cast_precision_loss, reason = "a draw between 0 and 1")]
            let len = match self.what.op {
                Op::Atomic => WORD,
                _ => self.sizes.quantile(self.rng.below(1 << 20) as f64 / f64::from(1 << 20)) as usize,
            };
            let mut work = self.work(len).wr_id(self.posted);
            if !(self.posted + 1).is_multiple_of(self.what.signaled.into()) {
                work = work.unsignaled();
            }
            match rig.stage(self.ends[0], &work) {
                Ok(_) => {
                    self.posted += 1;
                    self.under_way.push_back((len as u64, rig.now()));
                }
                Err(PostError::QueueFull { .. }) => break,
                Err(_) => {
                    self.fail(1);
                    break;
                }
            }
        }
        rig.submit(self.ends[0]);
    }

    fn work(&self, len: usize) -> Work {
        let [here, there] = self.memory.of(self.posted, len);
        let parts = elements(here, self.what.elements);
        match self.what.op {
            Op::Write => Work::write_gather(&parts, there),
            Op::BadKey => Work::write_gather(&parts, there).to(there.addr(), !there.region.key),
            Op::WriteImm => Work::write_gather(&parts, there).imm(1),
            Op::Send => Work::send_gather(&parts),
            Op::Read => Work::read_scatter(&parts, there),
            Op::Atomic => Work::fetch_add(here, there, 1),
            Op::BadQpn | Op::BadPsn | Op::Create | Op::Register => {
                unreachable!("an entry without requests has no queue pairs of its own")
            }
        }
    }
}

impl Traffic for Flow {
    fn entry(&self) -> usize {
        self.entry
    }

    fn step(&mut self, rig: &mut Rig, may_post: bool) {
        self.take(rig);
        if may_post {
            self.connect_again(rig);
        }
        self.post_receives(rig);
        // A batch is posted as a whole, or not yet.
        let (room, batch) = (self.room(), u64::from(self.what.batch.min(self.what.depth)));
        if may_post && self.errors == 0 && rig.now() >= self.next_post && room >= batch {
            let count = if self.what.pace_ns == 0 { room / batch * batch } else { batch };
            self.post(rig, count);
            self.next_post = rig.now().after(self.what.pace_ns.into());
        }
    }

    fn wakes_at(&self, now: Time) -> Option<Time> {
        [self.next_post, self.next_receive].into_iter().filter(|at| *at > now).min()
    }

    fn stop(&mut self) {
        self.stopped = Some(self.done);
    }

    fn moves_on(&self) -> bool {
        let is_lost = self.errors > 0 || self.what.reconnect || !self.what.polled;
        is_lost || self.stopped.is_none_or(|before| self.done > before) || self.signaled_left() == 0
    }

    fn tell(&self, told: &mut EntryOutcome) {
        told.requests += self.requests;
        told.bytes += self.bytes;
        told.errors += self.errors;
        told.stuck += if self.moves_on() { 0 } else { self.posted - self.done };
        told.shares.push(self.requests);
        told.latencies.extend(&self.latencies);
    }
}

fn options(entry: &Entry) -> Result<QpOptions, ScenarioError> {
    let receives = entry.receives_ahead().max(1);
    Ok(QpOptions {
        qp_type: if entry.service == Service::Uc { QpType::Uc } else { QpType::Rc },
        pmtu: entry.pmtu()?,
        window: entry.window,
        congestion: entry.congestion()?,
        recovery: entry.recovery()?,
        caps: QueueCaps {
            max_send_wr: entry.depth,
            max_recv_wr: receives,
            max_send_sge: entry.elements,
            max_recv_sge: entry.elements,
            max_inline: 0,
        },
        cq_entries: if entry.polled { entry.depth.max(receives) + 16 } else { entry.depth },
        ..QpOptions::default()
    })
}
