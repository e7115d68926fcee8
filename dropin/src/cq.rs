//! Completion queues.

use crate::abi::{self, PthreadCond, PthreadMutex, Wc};
use crate::acks::Acks;
use crate::argument::Out;
use crate::channel::{Channel, ChannelState};
use crate::context::{Context, ContextState};
use crate::cq_ex::Polling;
use crate::errno::{Errno, Result};
use crate::events::Target;
use crate::object::{Object, Shell, Taken};
use core::ffi::{c_int, c_void};
use core::ops::{Deref, DerefMut};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use verbs_api::{Completion, CompletionQueue, WcFlags, WcStatus};

/// Completions that one look takes.
const BURST: usize = 16;
/// Entries of the smallest queue. NICs round up, and programs live on that: perftest asks for one
/// entry, and with `-e` takes a receive's event for a send's if the acknowledgement was lost.
const ENTRIES_MIN: u32 = 64;
/// Looks in vain after which who polls offers its processor to others at each further one. As long
/// as that, a round trip may be under way; and where processes outnumber processors, the peer is
/// one of those who wait for one.
const VAIN: u32 = 256;

/// A completion queue. All have room for the extended structure.
#[repr(C)]
pub struct Cq {
    c: Shell<abi::CqEx>,
    state: Arc<CqState>,
    /// What the extended calls are at.
    pub polling: Polling,
    cq_context: *mut c_void,
    completion_acks: Acks,
    async_acks: Acks,
    /// What is in front of datagrams.
    packet_type: u8,
    /// Looks in vain since the last completion.
    vain: AtomicU32,
}

// SAFETY: the structure is its first field; the pointer is handed on only, and `Polling` says how
// it is used.
unsafe impl Object for Cq {
    type C = abi::Cq;
}

/// What lives as long as a queue pair that reports to the queue.
pub struct CqState {
    ring: Mutex<Ring>,
    channel: Option<Arc<ChannelState>>,
    context: Arc<ContextState>,
}

impl CqState {
    pub fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engine's queue, and what was taken from it on the way.
pub struct Ring {
    queue: CompletionQueue,
    /// Completions that come before those of the queue.
    kept: VecDeque<Completion>,
}

impl Ring {
    /// Takes the completions of a queue pair off the queue, as NICs do for one that goes to RESET.
    pub fn forget(&mut self, qpn: u32) {
        self.kept.retain(|completion| completion.qpn != qpn);
        // As many as there may be; those that come meanwhile are of others.
        for _ in 0..self.queue.entries() {
            let Some(completion) = self.queue.poll() else { return };
            if completion.qpn != qpn {
                self.kept.push_back(completion);
            }
        }
    }

    /// Fills `out` from its start with the oldest completions; returns how many.
    #[inline]
    pub fn poll_into(&mut self, out: &mut [Option<Completion>]) -> usize {
        if self.kept.is_empty() { self.queue.poll_into(out) } else { self.take_kept(out) }
    }

    /// The oldest completion.
    #[inline]
    pub fn poll(&mut self) -> Option<Completion> {
        if self.kept.is_empty() { self.queue.poll() } else { self.kept.pop_front() }
    }

    #[cold]
    fn take_kept(&mut self, out: &mut [Option<Completion>]) -> usize {
        let count = out.len().min(self.kept.len());
        for (place, completion) in out.iter_mut().zip(self.kept.drain(..count)) {
            *place = Some(completion);
        }
        count
    }
}

impl Deref for Ring {
    type Target = CompletionQueue;

    fn deref(&self) -> &CompletionQueue {
        &self.queue
    }
}

impl DerefMut for Ring {
    fn deref_mut(&mut self) -> &mut CompletionQueue {
        &mut self.queue
    }
}

impl Cq {
    pub const fn state(&self) -> &Arc<CqState> {
        &self.state
    }

    pub const fn extended(&self) -> *mut abi::CqEx {
        self.c.get()
    }

    pub const fn cq_context(&self) -> *mut c_void {
        self.cq_context
    }

    pub const fn completion_acks(&self) -> &Acks {
        &self.completion_acks
    }

    pub const fn async_acks(&self) -> &Acks {
        &self.async_acks
    }

    /// A completion of the queue's, as C has it.
    pub fn wc_of(&self, completion: &Completion) -> Wc {
        wc_of(completion, self.packet_type)
    }

    /// A look has found something, or nothing.
    #[inline]
    pub fn note_look(&self, found: bool) {
        let vain = if found { 0 } else { self.vain.load(Ordering::Relaxed).saturating_add(1) };
        self.vain.store(vain, Ordering::Relaxed);
        if vain > VAIN {
            std::thread::yield_now();
        }
    }

    /// A queue of at least `entries` entries.
    pub fn create(
        context: &Context,
        entries: u32,
        cq_context: *mut c_void,
        channel: Option<&Channel>,
        vector: u32,
    ) -> Result<*mut Self> {
        if vector != 0 {
            return Err(Errno::INVALID);
        }
        if entries == 0 {
            return Err(Errno::INVALID);
        }
        let entries = entries.max(ENTRIES_MIN);
        let device = context.device();
        let channel_state = channel.map(Channel::state);
        let ring = match channel_state {
            Some(state) => device.create_cq_on(&state.channel, entries)?,
            None => device.create_cq(entries)?,
        };
        let number = ring.number();
        let c = abi::CqEx {
            base: abi::Cq {
                context: context.address(),
                channel: channel.map_or(null_mut(), Object::address),
                cq_context,
                handle: number,
                cqe: c_int::try_from(ring.entries()).unwrap_or(c_int::MAX),
                mutex: PthreadMutex::NEW,
                cond: PthreadCond::NEW,
                comp_events_completed: 0,
                async_events_completed: 0,
            },
            ..crate::cq_ex::NOTHING
        };
        let state = CqState {
            ring: Mutex::new(Ring { queue: ring, kept: VecDeque::new() }),
            channel: channel_state.cloned(),
            context: Arc::clone(context.state()),
        };
        let queue = Self {
            c: Shell::new(c),
            state: Arc::new(state),
            polling: Polling::default(),
            cq_context,
            completion_acks: Acks::default(),
            async_acks: Acks::default(),
            packet_type: packet_type(device.ip()),
            vain: AtomicU32::new(0),
        };
        let queue: *mut Self = queue.give().cast();
        if let Some(channel) = channel_state {
            channel.add(number, queue);
        }
        let context = context.state();
        context.engine.listeners.add(Target::Cq(number), &context.events, queue);
        Ok(queue)
    }
}

/// What is in front of each datagram on a network of this family, as NICs say it in `sl`, which
/// RoCE has no other use for: a header of UDP (8), and one of IPv6 (1) or IPv4 (2). UCX looks for
/// its address accordingly.
const fn packet_type(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 8 | 2 } else { 8 | 1 }
}

/// A completion as C has it; `packet_type` is that of datagrams.
fn wc_of(completion: &Completion, packet_type: u8) -> Wc {
    let succeeded = completion.status == WcStatus::Success;
    let flags = completion.flags.difference(WcFlags::SOLICITED);
    // A key that was invalidated is a number; immediate data are bytes of the network's.
    let imm = if flags.contains(WcFlags::WITH_INV) { completion.imm } else { completion.imm.to_be() };
    Wc {
        wr_id: completion.wr_id,
        status: completion.status as u32,
        opcode: completion.opcode as u32,
        vendor_err: u32::from(!succeeded),
        byte_len: completion.byte_len,
        imm_data: imm,
        qp_num: completion.qpn,
        src_qp: completion.src_qp,
        wc_flags: flags.bits().into(),
        sl: if flags.contains(WcFlags::GRH) { packet_type } else { 0 },
        ..Wc::default()
    }
}

calls! {
    fn poll_cq(cq: &Cq, entries: c_int, out: Out<Wc>) -> c_int = negative {
        let entries = usize::try_from(entries).map_err(|_| Errno::INVALID)?;
        let mut ring = cq.state.ring();
        let mut done = 0;
        while done < entries {
            let mut burst = [None; BURST];
            let wanted = BURST.min(entries - done);
            let found = ring.poll_into(&mut burst[..wanted]);
            for completion in burst[..found].iter().flatten() {
                out.at(done).set(cq.wc_of(completion));
                done += 1;
            }
            if found < wanted {
                break;
            }
        }
        drop(ring);
        cq.note_look(done > 0);
        Ok(c_int::try_from(done).unwrap_or(c_int::MAX))
    }

    fn req_notify_cq(cq: &Cq, solicited_only: c_int) -> c_int = code {
        // Nobody hears of a queue without a channel.
        if cq.state.channel.is_some() {
            cq.state.ring().arm(solicited_only != 0)?;
        }
        Ok(())
    }
}

exports! {
    fn ibv_create_cq(context: &Context, entries: c_int, cq_context: *mut c_void, channel: Option<&Channel>, vector: c_int) -> *mut abi::Cq = pointer {
        let entries = u32::try_from(entries).map_err(|_| Errno::INVALID)?;
        let vector = u32::try_from(vector).map_err(|_| Errno::INVALID)?;
        Ok(Cq::create(context, entries, cq_context, channel, vector)?.cast())
    }

    fn ibv_resize_cq(cq: &Cq, entries: c_int) -> c_int = both {
        let entries = u32::try_from(entries).map_err(|_| Errno::INVALID)?;
        let mut ring = cq.state.ring();
        ring.resize(entries)?;
        // SAFETY: the program does not use the field while it is changed.
        unsafe { (*cq.c.get()).base.cqe = c_int::try_from(ring.entries()).unwrap_or(c_int::MAX) };
        Ok(())
    }

    fn ibv_destroy_cq(cq: Taken<Cq>) -> c_int = both {
        let queue = cq.get();
        if Arc::strong_count(&queue.state) > 1 {
            return Err(Errno::BUSY);
        }
        let number = queue.state.ring().number();
        if let Some(channel) = &queue.state.channel {
            channel.remove(number);
        }
        queue.state.context.engine.listeners.remove(Target::Cq(number));
        queue.completion_acks.wait();
        queue.async_acks.wait();
        cq.destroy();
        Ok(())
    }

    fn ibv_ack_cq_events(cq: &Cq, events: u32) -> () = nothing {
        cq.completion_acks.ack(events.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbs_api::WcOpcode;

    #[test]
    fn a_datagram_says_what_is_in_front_of_it() {
        let plain = Completion {
            wr_id: 1,
            status: WcStatus::Success,
            opcode: WcOpcode::Recv,
            flags: WcFlags::empty(),
            byte_len: 48,
            imm: 0,
            qpn: 2,
            src_qp: 3,
        };
        let datagram = Completion { flags: WcFlags::GRH, ..plain };
        for (ip, said) in [("10.77.0.1", 10), ("fd00::1", 9)] {
            let packet_type = packet_type(ip.parse().expect("an address"));
            assert_eq!((wc_of(&datagram, packet_type).sl, wc_of(&plain, packet_type).sl), (said, 0));
        }
    }
}
