//! Posting work, and what became of it.

use super::memory::Span;
use super::{Endpoint, Qp, Rig};
use datapath::latency::Probe;
use datapath::memory::{Access, Binding};
use datapath::queue::{
    Completion, PostError, RecvRequest, SendData, SendFlags, SendOpcode, SendRequest, Sge,
};
use datapath::time::Time;

/// A send work request in the making. Signaled unless told otherwise; `wr_id` counts up from 1 on
/// each queue pair.
#[derive(Clone, Debug)]
pub struct Work {
    opcode: SendOpcode,
    data: Data,
    remote: (u64, u32),
    imm: u32,
    flags: SendFlags,
    wr_id: Option<u64>,
}

#[derive(Clone, Debug)]
enum Data {
    Gather(Vec<Sge>),
    Inline(Vec<u8>),
    Atomic { result: Sge, compare: u64, swap_or_add: u64 },
    Bind(Binding),
}

impl Work {
    /// RDMA WRITE of `from` to the start of `to`.
    #[must_use]
    pub fn write(from: Span, to: Span) -> Self {
        Self::new(SendOpcode::Write, Data::Gather(vec![from.sge()])).to(to.addr(), to.region.key)
    }

    /// SEND of `from`.
    #[must_use]
    pub fn send(from: Span) -> Self {
        Self::new(SendOpcode::Send, Data::Gather(vec![from.sge()]))
    }

    /// This SEND, made to end the peer's window of this key.
    #[must_use]
    pub const fn invalidating(mut self, key: u32) -> Self {
        (self.opcode, self.imm) = (SendOpcode::SendWithInv, key);
        self
    }

    /// LOCAL_INV of a window of ours.
    #[must_use]
    pub const fn local_inv(key: u32) -> Self {
        let mut work = Self::new(SendOpcode::LocalInv, Data::Gather(Vec::new()));
        work.imm = key;
        work
    }

    /// BIND_MW: the window with `key` shows `part` under `new_key`.
    #[must_use]
    pub fn bind(key: u32, new_key: u32, part: Span, access: Access) -> Self {
        let binding = Binding { range: part.sge(), access, new_key };
        Self::new(SendOpcode::BindWindow, Data::Bind(binding)).to(0, key)
    }

    /// RDMA WRITE of several elements.
    #[must_use]
    pub fn write_gather(from: &[Span], to: Span) -> Self {
        let sges = from.iter().map(|span| span.sge()).collect();
        Self::new(SendOpcode::Write, Data::Gather(sges)).to(to.addr(), to.region.key)
    }

    /// SEND of several elements.
    #[must_use]
    pub fn send_gather(from: &[Span]) -> Self {
        Self::new(SendOpcode::Send, Data::Gather(from.iter().map(|span| span.sge()).collect()))
    }

    /// RDMA WRITE of bytes that travel in the queue itself.
    #[must_use]
    pub fn write_inline(bytes: &[u8], to: Span) -> Self {
        Self::new(SendOpcode::Write, Data::Inline(bytes.to_vec())).to(to.addr(), to.region.key)
    }

    /// SEND of bytes that travel in the queue itself.
    #[must_use]
    pub fn send_inline(bytes: &[u8]) -> Self {
        Self::new(SendOpcode::Send, Data::Inline(bytes.to_vec()))
    }

    /// RDMA READ of the start of `from` into `to`.
    #[must_use]
    pub fn read(to: Span, from: Span) -> Self {
        Self::read_scatter(&[to], from)
    }

    /// RDMA READ into several elements.
    #[must_use]
    pub fn read_scatter(to: &[Span], from: Span) -> Self {
        let sges = to.iter().map(|span| span.sge()).collect();
        Self::new(SendOpcode::Read, Data::Gather(sges)).to(from.addr(), from.region.key)
    }

    /// Adds to the word at the start of `word`; what was there before goes to `result`.
    #[must_use]
    pub fn fetch_add(result: Span, word: Span, add: u64) -> Self {
        let data = Data::Atomic { result: result.sge(), compare: 0, swap_or_add: add };
        Self::new(SendOpcode::FetchAdd, data).to(word.addr(), word.region.key)
    }

    /// Stores `swap` to the word at the start of `word` if it is `compare`; what was there before
    /// goes to `result`.
    #[must_use]
    pub fn compare_swap(result: Span, word: Span, compare: u64, swap: u64) -> Self {
        let data = Data::Atomic { result: result.sge(), compare, swap_or_add: swap };
        Self::new(SendOpcode::CompareSwap, data).to(word.addr(), word.region.key)
    }

    /// This request, made to wait until all READs and atomics before it are complete.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.flags.insert(SendFlags::FENCE);
        self
    }

    /// This request with immediate data.
    #[must_use]
    pub fn imm(mut self, imm: u32) -> Self {
        self.imm = imm;
        self.opcode = if self.opcode.is_write() { SendOpcode::WriteWithImm } else { SendOpcode::SendWithImm };
        self
    }

    /// This request without a completion if it succeeds.
    #[must_use]
    pub fn unsignaled(mut self) -> Self {
        self.flags.remove(SendFlags::SIGNALED);
        self
    }

    /// This request with a solicited event.
    #[must_use]
    pub fn solicited(mut self) -> Self {
        self.flags.insert(SendFlags::SOLICITED);
        self
    }

    /// This request under a number of its own.
    #[must_use]
    pub fn wr_id(mut self, wr_id: u64) -> Self {
        self.wr_id = Some(wr_id);
        self
    }

    /// This request to an address and key as given, right or wrong.
    #[must_use]
    pub fn to(mut self, addr: u64, rkey: u32) -> Self {
        self.remote = (addr, rkey);
        self
    }

    /// This request with its local keys replaced.
    #[must_use]
    pub fn lkey(mut self, lkey: u32) -> Self {
        match &mut self.data {
            Data::Gather(sges) => sges.iter_mut().for_each(|sge| sge.lkey = lkey),
            Data::Atomic { result, .. } => result.lkey = lkey,
            Data::Bind(binding) => binding.range.lkey = lkey,
            Data::Inline(_) => {}
        }
        self
    }

    const fn new(opcode: SendOpcode, data: Data) -> Self {
        Self { opcode, data, remote: (0, 0), imm: 0, flags: SendFlags::SIGNALED, wr_id: None }
    }

    fn request(&self, wr_id: u64) -> SendRequest<'_> {
        SendRequest {
            wr_id,
            opcode: self.opcode,
            flags: self.flags,
            imm: self.imm,
            remote_addr: self.remote.0,
            rkey: self.remote.1,
            data: match &self.data {
                Data::Gather(sges) => SendData::Gather(sges),
                Data::Inline(bytes) => SendData::Inline(bytes),
                Data::Bind(binding) => SendData::Bind(binding),
                Data::Atomic { result, compare, swap_or_add } => {
                    SendData::Atomic { result: *result, compare: *compare, swap_or_add: *swap_or_add }
                }
            },
        }
    }
}

impl Rig {
    /// Posts a send work request; returns its number.
    ///
    /// # Errors
    /// [`PostError`]; nothing was posted then.
    pub fn try_post(&mut self, qp: Qp, work: &Work) -> Result<u64, PostError> {
        let wr_id = self.stage(qp, work)?;
        self.submit(qp);
        Ok(wr_id)
    }

    /// Writes a send work request that the engine sees after [`Rig::submit`] only; returns its
    /// number.
    ///
    /// # Errors
    /// [`PostError`]; nothing was written then.
    pub fn stage(&mut self, qp: Qp, work: &Work) -> Result<u64, PostError> {
        let (now, probe) = (self.now, self.nodes[qp.node.0].probe.as_ref());
        let endpoint = &mut self.endpoints[qp.index];
        let wr_id = work.wr_id.unwrap_or(endpoint.next_wr_id);
        let request = work.request(wr_id);
        endpoint.handles.send.stage(&request)?;
        if let Some(probe) = probe {
            probe.note_post(&endpoint.handles.send, &request, || now);
        }
        endpoint.next_wr_id += u64::from(work.wr_id.is_none());
        Ok(wr_id)
    }

    /// Posts what was staged.
    pub fn submit(&mut self, qp: Qp) {
        self.endpoints[qp.index].handles.send.submit();
    }

    /// Posts a send work request; returns its number.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn post(&mut self, qp: Qp, work: &Work) -> u64 {
        self.try_post(qp, work).expect("the work request is accepted")
    }

    /// Posts several in one call; returns how many were accepted, and why the next one was not.
    pub fn post_batch(&mut self, qp: Qp, batch: &[Work]) -> (usize, Result<(), PostError>) {
        let endpoint = &mut self.endpoints[qp.index];
        let requests: Vec<_> = batch
            .iter()
            .map(|work| {
                let wr_id = work.wr_id.unwrap_or(endpoint.next_wr_id);
                endpoint.next_wr_id += u64::from(work.wr_id.is_none());
                work.request(wr_id)
            })
            .collect();
        endpoint.handles.send.post_batch(&requests)
    }

    /// WRITEs `from` to the start of `to`; returns the request's number.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn write(&mut self, qp: Qp, from: Span, to: Span) -> u64 {
        self.post(qp, &Work::write(from, to))
    }

    /// SENDs `from`; returns the request's number.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn send(&mut self, qp: Qp, from: Span) -> u64 {
        self.post(qp, &Work::send(from))
    }

    /// Posts a receive into `to`; returns its number.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn post_recv(&mut self, qp: Qp, to: Span) -> u64 {
        self.try_post_recv(qp, &[to]).expect("the receive is accepted")
    }

    /// Posts a receive into several elements; returns its number.
    ///
    /// # Errors
    /// [`PostError`]; nothing was posted then.
    pub fn try_post_recv(&mut self, qp: Qp, to: &[Span]) -> Result<u64, PostError> {
        let wr_id = self.endpoints[qp.index].next_wr_id;
        self.try_post_recv_as(qp, to, wr_id)?;
        self.endpoints[qp.index].next_wr_id += 1;
        Ok(wr_id)
    }

    /// Posts a receive into several elements, under a number of its own.
    ///
    /// # Errors
    /// [`PostError`]; nothing was posted then.
    pub fn try_post_recv_as(&mut self, qp: Qp, to: &[Span], wr_id: u64) -> Result<(), PostError> {
        let scatter: Vec<Sge> = to.iter().map(|span| span.sge()).collect();
        self.endpoints[qp.index].handles.recv.post(&RecvRequest { wr_id, scatter: &scatter })
    }

    /// Completions of a queue pair's sends that were polled so far.
    #[must_use]
    pub fn sends(&self, qp: Qp) -> &[Completion] {
        &self.endpoints[qp.index].sends
    }

    /// Completions of a queue pair's receives that were polled so far.
    #[must_use]
    pub fn recvs(&self, qp: Qp) -> &[Completion] {
        &self.endpoints[qp.index].recvs
    }

    /// Takes the completions polled so far, sends first.
    pub fn take_completions(&mut self, qp: Qp) -> (Vec<Completion>, Vec<Completion>) {
        let endpoint = &mut self.endpoints[qp.index];
        (core::mem::take(&mut endpoint.sends), core::mem::take(&mut endpoint.recvs))
    }

    /// Returns `true` if the rig polls all completion queues after every step, which is the
    /// default.
    pub const fn set_auto_poll(&mut self, on: bool) {
        self.auto_poll = on;
    }

    /// Polls the completion queues of one queue pair: those of thousands take longer than all else.
    pub fn poll_qp(&mut self, qp: Qp) {
        let probe = self.nodes[qp.node.0].probe.as_deref();
        poll_endpoint(&mut self.endpoints[qp.index], probe, self.now);
    }

    /// Polls all completion queues and event queues into the rig's logs.
    pub fn poll(&mut self) {
        for endpoint in &mut self.endpoints {
            let probe = self.nodes[endpoint.id.node.0].probe.as_deref();
            poll_endpoint(endpoint, probe, self.now);
        }
        self.poll_events();
    }

    /// Polls the event queues of all nodes into the rig's logs.
    pub fn poll_events(&mut self) {
        for node in &mut self.nodes {
            while let Some(event) = node.engine.poll_event() {
                node.events.push(event);
            }
        }
    }
}

fn poll_endpoint(endpoint: &mut Endpoint, probe: Option<&Probe>, now: Time) {
    while let Some(completion) = endpoint.send_cq.poll() {
        endpoint.sends.push(completion);
        if let Some(probe) = probe {
            probe.note_poll(endpoint.cqs[0], endpoint.send_cq.head(), || now);
        }
    }
    while let Some(completion) = endpoint.recv_cq.poll() {
        endpoint.recvs.push(completion);
    }
}
