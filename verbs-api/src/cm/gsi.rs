//! Queue pair 1: where MADs come from and go to.
//!
//! It is made of the engine's own handles, not of the verbs' objects: those keep their device
//! alive, and this belongs to it.

use crate::Grh;
use crate::error::Error;
use crate::memory::Bytes;
use crate::nic::Hears;
use crate::queue_pair::ud_transitions;
use crate::shared::Shared;
use core::net::IpAddr;
use core::time::Duration;
use datapath::address::AddressKey;
use datapath::engine::{CreateError, QpConfig, QpHandles};
use datapath::memory::{Access, HeapBacking, MemoryKey, ProtectionDomainId};
use datapath::qp::attr::{AddressVector, QpAttr, QpAttrMask};
use datapath::qp::state::{QpState, QpType};
use datapath::queue::{
    Completion, CompletionQueue, DatagramAddress, QueueCaps, RecvRequest, SendData, SendFlags, SendOpcode,
    SendRequest, Sge, WcOpcode, WcStatus,
};
use datapath::sched::TenantId;
use rdma_cm::{Host, Transmit};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use wire::cm::{GSI_QKEY, GSI_QPN, MAD_LEN};

/// Receives that wait; what comes in faster is lost, and sent again by its sender.
const RECEIVES: usize = 256;
/// MADs that are being sent.
const SENDS: usize = 64;
/// Bytes of a receive: the GRH area and a MAD.
const RECEIVE_LEN: usize = Grh::LEN + MAD_LEN;
/// MADs that wait for a place or for a host's Ethernet address; more are dropped.
const WAITING_MAX: usize = 1024;
/// Hosts whose address handles are kept.
const HOSTS_MAX: usize = 256;
/// How long an address handle is used. After that a host may have another Ethernet address.
const HANDLE_LIFETIME: Duration = Duration::from_secs(5);

/// How MADs get to a host.
struct Route {
    key: AddressKey,
    made: Duration,
    /// MADs that are being sent by it; it must not go before them.
    in_flight: usize,
}

/// The queue pair, its buffers, and what waits to be sent.
pub(super) struct Gsi {
    ip: IpAddr,
    pd: ProtectionDomainId,
    cq: CompletionQueue,
    pair: QpHandles,
    memory: Bytes,
    key: MemoryKey,
    /// Places for sends that are free.
    free: Vec<usize>,
    /// The host that the MAD in each place goes to, if the place is in use.
    sending: [Option<Host>; SENDS],
    routes: HashMap<Host, Route>,
    waiting: VecDeque<Transmit>,
    dropped: u64,
}

impl Gsi {
    pub fn new(shared: &Shared, ip: IpAddr) -> Result<Self, Error> {
        let mut nic = shared.call().ok_or(Error::Forked)?;
        let pd = nic.core_mut().allocate_pd();
        let hears = Hears::Attendant(Arc::clone(shared.wake_deadline()));
        let count = |entries: usize| u32::try_from(entries).unwrap_or(u32::MAX);
        let (number, cq) = nic.create_cq(TenantId::DEFAULT, count(RECEIVES + SENDS), Some(hears))?;
        let caps = QueueCaps {
            max_send_wr: count(SENDS),
            max_recv_wr: count(RECEIVES),
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let config = QpConfig {
            qp_type: QpType::Ud,
            gsi: true,
            pd,
            send_cq: number,
            recv_cq: number,
            srq: None,
            caps,
            window: 1,
        };
        let pair = match nic.core_mut().create_qp(&config) {
            Ok(pair) => pair,
            Err(error) => {
                nic.destroy_cq(number);
                return Err(error.into());
            }
        };
        let made = ud_transitions().into_iter().try_for_each(|(state, mask)| {
            let attr = QpAttr { state, ..QpAttr::default() };
            nic.core_mut().modify_qp(pair.qpn, &attr, mask)
        });
        let memory = Bytes::new(Arc::new(HeapBacking::new(RECEIVES * RECEIVE_LEN + SENDS * MAD_LEN)));
        let backing = Arc::clone(memory.backing());
        let key = nic.core_mut().memory_mut().register(pd, backing, memory.addr(), Access::LOCAL_WRITE);
        let key = match made.map_err(Error::from).and(key.map_err(Error::from)) {
            Ok(key) => key,
            Err(error) => {
                nic.core_mut().destroy_qp(pair.qpn);
                nic.destroy_cq(number);
                return Err(error);
            }
        };
        drop(nic);
        let mut gsi = Self {
            ip,
            pd,
            cq,
            pair,
            memory,
            key,
            free: (0..SENDS).collect(),
            sending: [None; SENDS],
            routes: HashMap::new(),
            waiting: VecDeque::new(),
            dropped: 0,
        };
        for index in 0..RECEIVES {
            gsi.post_receive(index)?;
        }
        gsi.cq.arm(false);
        Ok(gsi)
    }

    /// MADs that were not sent: nobody has the address, or too many waited.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn sge(&self, offset: usize, length: usize) -> Sge {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        Sge { addr: self.memory.addr() + offset as u64, length, lkey: self.key.0 }
    }

    fn post_receive(&mut self, index: usize) -> Result<(), Error> {
        let scatter = [self.sge(index * RECEIVE_LEN, RECEIVE_LEN)];
        Ok(self.pair.recv.post(&RecvRequest { wr_id: index as u64, scatter: &scatter })?)
    }

    /// Takes what has completed; `take` gets each MAD and the host that it came from.
    pub fn receive(&mut self, shared: &Shared, mut take: impl FnMut(Host, &[u8])) {
        // What comes from now on makes another event.
        self.cq.arm(false);
        while let Some(completion) = self.cq.poll() {
            let Ok(index) = usize::try_from(completion.wr_id) else { continue };
            if completion.opcode == WcOpcode::Recv {
                self.received(shared, index, &completion, &mut take);
            } else {
                self.sent(shared, index, &completion);
            }
        }
    }

    fn received(
        &mut self,
        shared: &Shared,
        index: usize,
        completion: &Completion,
        take: &mut impl FnMut(Host, &[u8]),
    ) {
        let len = usize::try_from(completion.byte_len).unwrap_or(0).min(RECEIVE_LEN);
        let mut bytes = [0; RECEIVE_LEN];
        let copied = self.memory.read(index * RECEIVE_LEN, &mut bytes);
        if completion.status == WcStatus::Success
            && copied.is_ok()
            && let Some((area, mad)) = bytes[..len].split_first_chunk()
            && let Some(grh) = Grh::parse(area)
        {
            let mac = shared.call().and_then(|nic| nic.core().heard_from(grh.src));
            take(Host { ip: grh.src, mac }, mad);
        }
        // It has just given back its place in the queue.
        let _ = self.post_receive(index);
    }

    fn sent(&mut self, shared: &Shared, index: usize, completion: &Completion) {
        let Some(host) = self.sending.get_mut(index).and_then(Option::take) else { return };
        self.free.push(index);
        if let Some(route) = self.routes.get_mut(&host) {
            route.in_flight = route.in_flight.saturating_sub(1);
        }
        if completion.status != WcStatus::Success {
            self.dropped += 1;
            // A send that cannot be sent takes it to SQE; fails if it is there no more.
            let attr = QpAttr { state: QpState::Rts, ..QpAttr::default() };
            if let Some(mut nic) = shared.call() {
                let _ = nic.core_mut().modify_qp(self.pair.qpn, &attr, QpAttrMask::STATE);
            }
        }
    }

    /// Puts a MAD behind those that wait.
    pub fn queue(&mut self, transmit: Transmit) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(transmit);
        } else {
            self.dropped += 1;
        }
    }

    /// Sends what can be sent. Returns the hosts that cannot be reached; what was for them is
    /// dropped.
    pub fn transmit(&mut self, shared: &Shared, now: Duration) -> BTreeSet<IpAddr> {
        let (mut unreachable, mut resolving) = (BTreeSet::new(), BTreeSet::new());
        for transmit in core::mem::take(&mut self.waiting) {
            if unreachable.contains(&transmit.to.ip) {
                self.dropped += 1;
                continue;
            }
            if self.free.is_empty() || resolving.contains(&transmit.to.ip) {
                self.waiting.push_back(transmit);
                continue;
            }
            match self.handle(shared, now, transmit.to) {
                Ok(handle) => {
                    if !self.send(&transmit, handle) {
                        self.dropped += 1;
                    }
                }
                // The engine asks for the address, and counts its questions.
                Err(CreateError::Exhausted { .. }) => {
                    resolving.insert(transmit.to.ip);
                    self.waiting.push_back(transmit);
                }
                Err(CreateError::Address(error)) if error.is_resolving() => {
                    resolving.insert(transmit.to.ip);
                    self.waiting.push_back(transmit);
                }
                Err(_) => {
                    self.dropped += 1;
                    unreachable.insert(transmit.to.ip);
                }
            }
        }
        self.pair.send.submit();
        unreachable
    }

    /// MADs that [`transmit`](Self::transmit) may send later.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns `true` if the Ethernet address of a host was found when a MAD went to it last.
    pub fn knows(&self, host: IpAddr) -> bool {
        self.routes.keys().any(|known| known.ip == host)
    }

    /// The address handle of a host.
    fn handle(&mut self, shared: &Shared, now: Duration, to: Host) -> Result<AddressKey, CreateError> {
        if let Some(known) = self.routes.get(&to) {
            if known.in_flight > 0 || now.saturating_sub(known.made) < HANDLE_LIFETIME {
                return Ok(known.key);
            }
            let key = known.key;
            self.forget(shared, to, key);
        }
        if self.routes.len() >= HOSTS_MAX {
            self.forget_oldest(shared)?;
        }
        let mut nic = shared.call().ok_or(CreateError::Unsupported("a device of the parent process"))?;
        // Back to where it sent from: a stranger makes nobody look for it.
        let dst_mac = to.mac.or_else(|| nic.core().heard_from(to.ip));
        let av = AddressVector { src_ip: self.ip, dst_ip: to.ip, dst_mac, ..AddressVector::default() };
        let key = nic.core_mut().create_ah(self.pd, &av)?;
        self.routes.insert(to, Route { key, made: now, in_flight: 0 });
        Ok(key)
    }

    fn forget_oldest(&mut self, shared: &Shared) -> Result<(), CreateError> {
        let idle = self.routes.iter().filter(|(_, route)| route.in_flight == 0);
        let oldest = idle.min_by_key(|(_, route)| route.made);
        let Some((host, key)) = oldest.map(|(host, route)| (*host, route.key)) else {
            return Err(CreateError::Exhausted { what: "hosts that MADs are sent to", capacity: HOSTS_MAX });
        };
        self.forget(shared, host, key);
        Ok(())
    }

    fn forget(&mut self, shared: &Shared, host: Host, key: AddressKey) {
        if let Some(mut nic) = shared.call() {
            nic.core_mut().destroy_ah(key);
        }
        self.routes.remove(&host);
    }

    fn send(&mut self, transmit: &Transmit, handle: AddressKey) -> bool {
        let Some(place) = self.free.pop() else { return false };
        let offset = RECEIVES * RECEIVE_LEN + place * MAD_LEN;
        let gather = [self.sge(offset, MAD_LEN)];
        let request = SendRequest {
            wr_id: place as u64,
            opcode: SendOpcode::Send,
            flags: SendFlags::SIGNALED,
            imm: 0,
            remote_addr: DatagramAddress { handle, qpn: GSI_QPN }.to_word(),
            rkey: GSI_QKEY,
            data: SendData::Gather(&gather),
        };
        let posted =
            self.memory.write(offset, &transmit.mad[..]).is_ok() && self.pair.send.stage(&request).is_ok();
        if !posted {
            self.free.push(place);
            return false;
        }
        self.sending[place] = Some(transmit.to);
        if let Some(route) = self.routes.get_mut(&transmit.to) {
            route.in_flight += 1;
        }
        true
    }
}
