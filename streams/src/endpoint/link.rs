//! One connection of an endpoint: its queue pair, its protocol, and the memory of its messages.

mod carrier;
mod reading;
mod writing;

pub use carrier::Carrier;
pub use reading::Borrowed;

use super::Way;
use super::blocks::Blocks;
use super::moving::Move;
use super::sending::{Sends, Sent};
use super::waiters::Waiters;
use crate::config::{Config, FETCHES};
use crate::error::{Error, Setup};
use crate::pool::{Chunk, Pool};
use crate::protocol::{
    Arrival, Connection, Descriptor, End, Fate, Header, Hello, Message, Received, Slot, Violation,
};
use core::net::SocketAddr;
use std::time::Instant;
use verbs_api::{Completion, RecvRequest, RemoteAddr, SendData, SendRequest, WcOpcode, WcStatus};

/// Work requests of messages have this number; those of receives have their slot's.
const SEND_ID: u64 = 1 << 32;
/// Those that bind a window have this one.
const BIND_ID: u64 = 2 << 32;
/// READs have this one and the slot's.
const FETCH_ID: u64 = 3 << 32;
/// Those that bind a window to a block which is to be granted have this one.
const SHOW_ID: u64 = 4 << 32;
/// Bytes that a checksum is computed of at once.
const STRIDE: usize = 4096;

/// What connections have carried.
#[derive(Clone, Copy, Default)]
pub struct Carried {
    /// Messages by their ways.
    pub sent: [u64; Way::ALL.len()],
    /// Bytes that the program has written.
    pub written: u64,
    /// Bytes that it has read.
    pub read: u64,
    /// Bytes that it has written and that were not copied.
    pub written_in_place: u64,
    /// Bytes that it has read and that were not copied.
    pub read_in_place: u64,
}

impl Carried {
    /// The sum.
    pub fn plus(mut self, more: &Self) -> Self {
        self.sent.iter_mut().zip(more.sent).for_each(|(sum, more)| *sum += more);
        self.written += more.written;
        self.read += more.read;
        self.written_in_place += more.written_in_place;
        self.read_in_place += more.read_in_place;
        self
    }
}

pub struct Link {
    protocol: Connection,
    carrier: Carrier,
    /// Whom the latest one connected to.
    peer: Option<SocketAddr>,
    /// Carriers that it has had. What another one brings is not for it.
    pub generation: u64,
    /// How it goes on over another carrier; `None`: it does not.
    pub moves: Option<Move>,
    /// Bytes that the peer may not have, from this position on, for the next carrier.
    backlog: (u64, Vec<u8>),
    config: Config,
    /// The memory of each receive.
    slots: Vec<Chunk>,
    /// Receives to post as soon as there is a queue pair.
    unposted: Vec<Slot>,
    sends: Sends,
    blocks: Blocks,
    /// Blocks are to be granted, as soon as there are some.
    wants_blocks: bool,
    /// So many.
    grants: u32,
    /// Since when the writer has waited for a grant.
    waits_since: Option<Instant>,
    /// READs under way.
    fetching: u32,
    /// Windows that are being bound to blocks.
    showing: u32,
    /// Something that it has to do by itself waits for memory.
    hungry: bool,
    /// Receives that are posted to queue pairs which may come to carry it, by their numbers.
    lent: Vec<(u32, Vec<Slot>)>,
    /// What has completed there.
    early: Vec<Completion>,
    /// What it has carried.
    pub carried: Carried,
    /// What the queue pair failed with first.
    failure: Option<WcStatus>,
    /// Nobody has its stream any more.
    dropped: bool,
    /// Its violation was counted.
    counted: bool,
    /// Who waits for bytes.
    pub readers: Waiters,
    /// Who waits for room.
    pub writers: Waiters,
}

impl Link {
    /// A link with its memory, and no carrier.
    ///
    /// # Errors
    /// [`Setup::PoolFull`]; its memory was given back then.
    pub fn new(pool: &mut Pool, config: &Config, own: &Hello) -> Result<Self, Setup> {
        let mut link = Self {
            protocol: Connection::new(own, config.checked),
            carrier: Carrier::None,
            peer: None,
            generation: 0,
            moves: None,
            backlog: (0, Vec::new()),
            config: *config,
            slots: Vec::with_capacity(config.posted() as usize),
            unposted: Vec::new(),
            sends: Sends::default(),
            blocks: Blocks::new(config.posted()),
            wants_blocks: false,
            grants: config.grants,
            waits_since: None,
            fetching: 0,
            showing: 0,
            hungry: false,
            lent: Vec::new(),
            early: Vec::new(),
            carried: Carried::default(),
            failure: None,
            dropped: false,
            counted: false,
            readers: Waiters::default(),
            writers: Waiters::default(),
        };
        for slot in 0..config.posted() {
            match pool.take() {
                Ok(chunk) => link.slots.push(chunk),
                Err(error) => {
                    // Nothing is posted.
                    let _ = link.release(pool);
                    return Err(error);
                }
            }
            link.unposted.push(Slot(slot));
        }
        Ok(link)
    }

    /// A work request has ended.
    pub fn complete(&mut self, pool: &mut Pool, done: &Completion) {
        let slot = Slot(u32::try_from(done.wr_id & u64::from(u32::MAX)).unwrap_or(u32::MAX));
        let what = done.wr_id - u64::from(slot.0);
        match what {
            FETCH_ID => self.fetching = self.fetching.saturating_sub(1),
            SHOW_ID => self.showing = self.showing.saturating_sub(1),
            _ => {}
        }
        match (what, done.status) {
            (SEND_ID, status) => {
                let is_untold = self.sends.under_way() > 0;
                self.sends.complete();
                if status != WcStatus::Success {
                    self.fail(pool, status, is_untold);
                }
            }
            (FETCH_ID, WcStatus::Success) => self.protocol.fetched(slot),
            (FETCH_ID, WcStatus::RemAccessErr | WcStatus::RemInvReqErr | WcStatus::RemOpErr) => {
                self.protocol.violate(Violation::Offer);
            }
            (0, WcStatus::Success) => self.receive(pool, slot, done),
            (_, WcStatus::Success) => {}
            (_, status) => self.fail(pool, status, self.sends.under_way() > 0),
        }
        self.pump(pool);
    }

    /// The queue pair has failed; `is_untold`: not all that was sent has arrived.
    fn fail(&mut self, pool: &mut Pool, status: WcStatus, is_untold: bool) {
        if status != WcStatus::WrFlushErr {
            self.failure.get_or_insert(status);
        }
        self.lose_carrier(pool, is_untold);
    }

    fn receive(&mut self, pool: &mut Pool, slot: Slot, done: &Completion) {
        let Some(own) = self.slots.get(slot.0 as usize).copied() else { return };
        let arrival = match done.opcode {
            WcOpcode::RecvRdmaWithImm => Arrival::Written(done.imm),
            _ => Arrival::Sent,
        };
        let chunk = if arrival == Arrival::Sent { Some(own) } else { self.blocks.front() };
        let mut header = [0; Header::BYTES];
        if let Some(chunk) = chunk {
            // A chunk of ours is long enough. The header is looked at where no peer can change it.
            let _ = pool.read(chunk, 0, &mut header);
        }
        let is_written = arrival != Arrival::Sent;
        let are_read = is_written && self.blocks.are_mostly_read();
        if is_written {
            self.blocks.written(slot);
        }
        let byte_len = done.byte_len as usize;
        let message = Lying { pool, chunk: chunk.unwrap_or(own) };
        let received = Received { slot, arrival, byte_len, header: &header, message: &message };
        let fate = self.protocol.receive(&received);
        if is_written {
            if self.protocol.take_waited() && are_read {
                self.grow();
            }
        } else {
            // A Grant of the peer's may be as long as data, and is not kept.
            self.wants_blocks |= fate == Fate::Kept && self.is_long(byte_len);
        }
        if fate == Fate::Repost {
            self.blocks.vacate(slot, pool);
            self.post(pool, slot);
        }
    }

    /// The peer is to be granted twice as many blocks, if it has all that it was to have.
    fn grow(&mut self) {
        if self.dropped || self.has_ended() || self.blocks.count() < self.grants {
            return;
        }
        let most = self.config.grants_max.max(self.config.grants);
        self.grants = self.grants.saturating_mul(2).min(most);
        self.wants_blocks |= self.blocks.count() < self.grants;
    }

    /// Returns `true` if a peer that sends a message of so many bytes is better off with blocks.
    fn is_long(&self, byte_len: usize) -> bool {
        let Config { grants, chunk_bytes, write_from, .. } = self.config;
        let payload = byte_len.saturating_sub(Header::BYTES);
        grants > 0 && (byte_len >= chunk_bytes as usize || payload >= write_from)
    }

    /// Posts a receive again.
    fn post(&mut self, pool: &Pool, slot: Slot) {
        let Carrier::Pair(pair) = &mut self.carrier else {
            self.unposted.push(slot);
            return;
        };
        let Some(chunk) = self.slots.get(slot.0 as usize).copied() else { return };
        let posted = pool
            .sge(chunk, 0..self.config.chunk_bytes as usize)
            .and_then(|sge| pair.post_recv(&RecvRequest { wr_id: slot.0.into(), scatter: &[sge] }));
        if posted.is_err() {
            self.fail_post();
        }
    }

    /// Does what the protocol has to do by itself.
    pub fn pump(&mut self, pool: &mut Pool) {
        self.sends.release(self.protocol.taken(), pool);
        self.hungry = false;
        self.ask();
        self.control();
        if self.protocol.end().is_some() && (self.sends.under_way() == 0 || self.is_by_tcp()) {
            // Nobody reads any more what was offered: the peer has what says so. Over TCP nothing
            // is.
            self.sends.release(u64::MAX, pool);
        }
        self.resend(pool);
        if self.fetch(pool).and_then(|()| self.grant(pool)).is_err() {
            self.fail_post();
        }
    }

    /// The queue pair has failed. Of one that another carrier may follow, completions tell.
    fn fail_post(&mut self) {
        if self.moves.is_none() {
            self.protocol.lose();
        }
    }

    /// Over TCP only the peer's word gives memory back: asks for it in time.
    fn ask(&mut self) {
        let waits = self.dropped || self.sends.len() * 2 >= self.config.sends as usize;
        if self.is_by_tcp() && waits && !self.sends.is_empty() {
            self.protocol.ask();
        }
    }

    /// Sends messages without payload.
    fn control(&mut self) {
        while self.sends.under_way() < self.config.send_places() as usize || self.is_by_tcp() {
            if matches!(self.carrier, Carrier::None) {
                return;
            }
            let Some(header) = self.protocol.next_control() else { return };
            let bytes = header.to_bytes();
            match &mut self.carrier {
                Carrier::None => {}
                Carrier::Tcp(out, _) => out.push(bytes.as_slice().into()),
                Carrier::Pair(pair) => {
                    let request = SendRequest::send(SendData::Inline(&bytes)).id(SEND_ID).signaled();
                    if pair.post_send(&request).is_err() {
                        return self.fail_post();
                    }
                    self.sends.push(Sent::Control);
                }
            }
        }
    }

    /// READs what the peer has offered.
    fn fetch(&mut self, pool: &mut Pool) -> Result<(), verbs_api::Error> {
        let Some(pair) = self.carrier.pair() else { return Ok(()) };
        while self.fetching < FETCHES
            && let Some((slot, offered)) = self.protocol.next_fetch()
            && let Some(own) = self.slots.get(slot.0 as usize).copied()
        {
            let chunk = self.blocks.read_into(slot, pool).unwrap_or(own);
            let len = offered.len.min(u32::try_from(pool.len(chunk)).unwrap_or(u32::MAX));
            let into = [pool.sge(chunk, 0..len as usize)?];
            let from = RemoteAddr { addr: offered.addr, rkey: offered.rkey };
            let request = SendRequest::read(&into, from).id(FETCH_ID + u64::from(slot.0)).signaled();
            pair.post_send(&request)?;
            self.protocol.fetch(slot, len);
            self.fetching += 1;
        }
        Ok(())
    }

    /// Grants blocks that the peer may write to.
    fn grant(&mut self, pool: &mut Pool) -> Result<(), verbs_api::Error> {
        let Some(pair) = self.carrier.pair() else { return Ok(()) };
        if self.wants_blocks && self.protocol.may_grant() {
            let missing = self.grants.saturating_sub(self.blocks.count());
            // The send queue has places for so many windows.
            let now = missing.min(self.config.grants.saturating_sub(self.showing));
            self.wants_blocks = now < missing;
            let len = self.config.block_bytes as usize;
            self.showing += self.blocks.make(now, pool, (pair, SHOW_ID), len)?;
        }
        let max = self
            .protocol
            .grants_max()
            .min((self.config.chunk_bytes as usize - Header::BYTES) / Descriptor::BYTES);
        if max == 0 || !self.blocks.are_due() || self.sends.len() >= self.config.sends as usize {
            return Ok(());
        }
        let Ok(chunk) = pool.take() else {
            self.hungry = true;
            return Ok(());
        };
        let granted = self.blocks.next(max);
        let header = self.protocol.grants(&granted);
        self.blocks.grant(granted.len());
        let payload: Vec<u8> = granted.iter().flat_map(Descriptor::to_bytes).collect();
        self.sends.push(Sent::Data { chunk, header: None, offset: 0, len: 0 });
        pool.write(chunk, 0, &header.to_bytes())?;
        pool.write(chunk, Header::BYTES, &payload)?;
        let gather = [pool.sge(chunk, 0..Header::BYTES + payload.len())?];
        self.post_message(SendRequest::send(SendData::Gather(&gather)))
    }

    fn post_message(&mut self, request: SendRequest<'_>) -> Result<(), verbs_api::Error> {
        let request = request.id(SEND_ID).signaled();
        self.carrier.pair().map_or(Ok(()), |pair| pair.post_send(&request))
    }

    fn error(&self, end: End) -> Error {
        match end {
            End::Reset(reason) => Error::of_reset(reason),
            End::Violation(rule) => Error::Violation { rule, position: self.protocol.violated_at() },
            End::Lost => self.failure.map_or(Error::Disconnected, Error::Failed),
            End::Aborted => Error::Aborted,
        }
    }

    /// The program writes no more.
    pub fn shut(&mut self) {
        self.protocol.shut();
        self.control();
    }

    /// The program gives the stream up.
    pub fn abort(&mut self) {
        self.protocol.abort();
        self.control();
    }

    /// Nobody has its stream any more.
    pub fn drop_stream(&mut self) {
        self.dropped = true;
        self.protocol.drop_stream();
        self.control();
    }

    /// Returns `true` if nobody has its stream any more.
    pub const fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// Returns `true` if the stream ended before its time.
    pub const fn has_ended(&self) -> bool {
        self.protocol.end().is_some()
    }

    /// Returns `true` if it could not go on for want of memory: it is to be pumped when there is
    /// some.
    pub const fn is_hungry(&self) -> bool {
        self.hungry
    }

    /// Returns `true` if nobody has its stream and all that was written has arrived, or cannot, and
    /// the peer was told if there is more to tell.
    pub fn is_over(&self) -> bool {
        if !self.dropped {
            return false;
        }
        let may_tell = !matches!(self.carrier, Carrier::None) || self.moves.is_some();
        let is_told = !self.protocol.owes_reset() || !may_tell;
        let has_arrived = self.sends.is_empty() && (self.protocol.is_over() || self.protocol.is_settled());
        has_arrived && is_told || self.protocol.end() == Some(End::Lost)
    }

    /// The rule that the peer broke, once.
    pub fn take_violation(&mut self) -> Option<crate::protocol::Violation> {
        let Some(End::Violation(violation)) = self.protocol.end() else { return None };
        let first = !core::mem::replace(&mut self.counted, true);
        first.then_some(violation)
    }
}

/// A message in a chunk.
struct Lying<'a> {
    pool: &'a Pool,
    chunk: Chunk,
}

impl Message for Lying<'_> {
    fn crc(&self, len: usize) -> u32 {
        let mut buffer = [0; STRIDE];
        let mut crc = 0;
        for at in (0..len).step_by(STRIDE) {
            let part = &mut buffer[..STRIDE.min(len - at)];
            // Inside: the message came into it.
            let _ = self.pool.read(self.chunk, Header::BYTES + at, part);
            crc = crc32c::crc32c_append(crc, part);
        }
        crc
    }

    fn descriptor(&self, index: usize) -> [u8; Descriptor::BYTES] {
        let mut bytes = [0; Descriptor::BYTES];
        // Inside: the message came into it.
        let _ = self.pool.read(self.chunk, Header::BYTES + index * Descriptor::BYTES, &mut bytes);
        bytes
    }
}
