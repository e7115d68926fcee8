//! One connection of an endpoint: its queue pair, its protocol, and the memory of its messages.

use super::Way;
use super::blocks::Blocks;
use super::sending::{Sends, Sent};
use crate::config::{Config, FETCHES};
use crate::error::{Error, Setup};
use crate::pool::{Chunk, Pool, Size};
use crate::protocol::{
    Arrival, Connection, Descriptor, End, Fate, Header, Hello, Message, Reading, Received, Room, Slot,
    Violation, WriteRefused,
};
use core::net::SocketAddr;
use core::task::Waker;
use std::io::{self, IoSlice};
use verbs_api::{
    Access, Completion, PreparedQueuePair, QueuePair, RecvRequest, RemoteAddr, SendData, SendRequest,
    WcOpcode, WcStatus,
};

/// Work requests of messages have this number; those of receives have their slot's.
const SEND_ID: u64 = 1 << 32;
/// Those that bind a window have this one.
const BIND_ID: u64 = 2 << 32;
/// READs have this one and the slot's.
const FETCH_ID: u64 = 3 << 32;
/// Bytes that a checksum is computed of at once.
const STRIDE: usize = 4096;

pub struct Link {
    protocol: Connection,
    /// `None` while the connection is being made.
    pair: Option<QueuePair>,
    config: Config,
    /// The memory of each receive.
    slots: Vec<Chunk>,
    /// Receives to post as soon as there is a queue pair.
    unposted: Vec<Slot>,
    sends: Sends,
    blocks: Blocks,
    /// Blocks are to be granted, as soon as there are some.
    wants_blocks: bool,
    /// READs under way.
    fetching: u32,
    /// Messages by their ways.
    pub sent: [u64; Way::ALL.len()],
    /// What the queue pair failed with first.
    failure: Option<WcStatus>,
    /// Nobody has its stream any more.
    dropped: bool,
    /// Its violation was counted.
    counted: bool,
    pub reader: Option<Waker>,
    pub writer: Option<Waker>,
}

impl Link {
    /// Posts the receives of a queue pair that is not connected yet.
    ///
    /// # Errors
    /// [`Setup::PoolFull`]; what posting fails with. Its memory was given back then.
    pub fn new(
        pool: &mut Pool,
        config: &Config,
        own: &Hello,
        pair: &mut PreparedQueuePair,
    ) -> Result<Self, Setup> {
        let mut link = Self {
            protocol: Connection::new(own, config.checked),
            pair: None,
            config: *config,
            slots: Vec::with_capacity(config.posted() as usize),
            unposted: Vec::new(),
            sends: Sends::default(),
            blocks: Blocks::new(config.posted()),
            wants_blocks: false,
            fetching: 0,
            sent: [0; Way::ALL.len()],
            failure: None,
            dropped: false,
            counted: false,
            reader: None,
            writer: None,
        };
        for slot in 0..config.posted() {
            let posted = pool.take().and_then(|chunk| {
                link.slots.push(chunk);
                let scatter = [pool.sge(chunk, config.chunk_bytes as usize)?];
                Ok(pair.post_recv(&RecvRequest { wr_id: slot.into(), scatter: &scatter })?)
            });
            if let Err(error) = posted {
                link.release(pool);
                return Err(error);
            }
        }
        Ok(link)
    }

    /// The connection is there.
    pub fn connected(&mut self, pool: &mut Pool, pair: QueuePair, peer: &Hello) {
        self.protocol.meet(peer);
        self.pair = Some(pair);
        for slot in core::mem::take(&mut self.unposted) {
            self.post(pool, slot);
        }
        self.pump(pool);
    }

    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.pair.as_ref()?.peer_addr()
    }

    /// Gives all memory back. The queue pair goes first: what it has posted is not used any more.
    pub fn release(&mut self, pool: &mut Pool) {
        self.pair = None;
        self.blocks.clear(pool);
        self.sends.clear(pool);
        self.slots.drain(..).for_each(|chunk| pool.give(chunk));
    }

    /// A work request has ended.
    pub fn complete(&mut self, pool: &mut Pool, done: &Completion) {
        let slot = Slot(u32::try_from(done.wr_id & u64::from(u32::MAX)).unwrap_or(u32::MAX));
        let what = done.wr_id - u64::from(slot.0);
        if what == FETCH_ID {
            self.fetching -= 1;
        }
        match (what, done.status) {
            (SEND_ID, status) => {
                self.sends.complete(pool);
                if status != WcStatus::Success {
                    self.fail(status);
                }
            }
            (FETCH_ID, WcStatus::Success) => self.protocol.fetched(slot),
            (FETCH_ID, WcStatus::RemAccessErr | WcStatus::RemInvReqErr | WcStatus::RemOpErr) => {
                self.protocol.violate(Violation::Offer);
            }
            (0, WcStatus::Success) => self.receive(pool, slot, done),
            (_, WcStatus::Success) => {}
            (_, status) => self.fail(status),
        }
        self.pump(pool);
    }

    fn fail(&mut self, status: WcStatus) {
        if status != WcStatus::WrFlushErr {
            self.failure.get_or_insert(status);
        }
        self.protocol.lose();
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
        if arrival == Arrival::Sent {
            self.wants_blocks |= self.is_long(done.byte_len as usize);
        } else {
            self.blocks.written(slot);
        }
        let byte_len = done.byte_len as usize;
        let message = Lying { pool, chunk: chunk.unwrap_or(own) };
        let received = Received { slot, arrival, byte_len, header: &header, message: &message };
        if self.protocol.receive(&received) == Fate::Repost {
            self.blocks.vacate(slot, pool);
            self.post(pool, slot);
        }
    }

    /// Returns `true` if a peer that sends a message of so many bytes is better off with blocks.
    fn is_long(&self, byte_len: usize) -> bool {
        let Config { grants, chunk_bytes, write_from, .. } = self.config;
        let payload = byte_len.saturating_sub(Header::BYTES);
        grants > 0 && (byte_len >= chunk_bytes as usize || payload >= write_from)
    }

    /// Posts a receive again.
    fn post(&mut self, pool: &Pool, slot: Slot) {
        let Some(pair) = &mut self.pair else {
            self.unposted.push(slot);
            return;
        };
        let Some(chunk) = self.slots.get(slot.0 as usize).copied() else { return };
        let posted = pool
            .sge(chunk, self.config.chunk_bytes as usize)
            .and_then(|sge| pair.post_recv(&RecvRequest { wr_id: slot.0.into(), scatter: &[sge] }));
        if posted.is_err() {
            // The queue pair has failed, of which its completions tell, too.
            self.protocol.lose();
        }
    }

    /// Does what the protocol has to do by itself.
    pub fn pump(&mut self, pool: &mut Pool) {
        if self.protocol.end().is_some() {
            // Nobody reads any more what was offered.
            self.sends.release(u64::MAX, pool);
        }
        self.sends.release(self.protocol.taken(), pool);
        self.control();
        if self.fetch(pool).and_then(|()| self.grant(pool)).is_err() {
            self.protocol.lose();
        }
    }

    /// Sends messages without payload.
    fn control(&mut self) {
        let Some(pair) = &mut self.pair else { return };
        while self.sends.under_way() < self.config.send_places() as usize {
            let Some(header) = self.protocol.next_control() else { return };
            let bytes = header.to_bytes();
            let request = SendRequest::send(SendData::Inline(&bytes)).id(SEND_ID).signaled();
            if pair.post_send(&request).is_err() {
                self.protocol.lose();
                return;
            }
            self.sends.push(Sent::Control);
        }
    }

    /// READs what the peer has offered.
    fn fetch(&mut self, pool: &mut Pool) -> Result<(), verbs_api::Error> {
        let Some(pair) = &mut self.pair else { return Ok(()) };
        while self.fetching < FETCHES
            && let Some((slot, offered)) = self.protocol.next_fetch()
            && let Some(own) = self.slots.get(slot.0 as usize).copied()
        {
            let chunk = self.blocks.read_into(slot, pool).unwrap_or(own);
            let len = offered.len.min(u32::try_from(pool.len(chunk)).unwrap_or(u32::MAX));
            let into = [pool.sge(chunk, len as usize)?];
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
        let Some(pair) = &mut self.pair else { return Ok(()) };
        if self.wants_blocks && self.protocol.may_grant() {
            self.wants_blocks = false;
            let missing = self.config.grants.saturating_sub(self.blocks.count());
            self.blocks.make(missing, pool, pair, BIND_ID, self.config.block_bytes as usize)?;
        }
        let max = self
            .protocol
            .grants_max()
            .min((self.config.chunk_bytes as usize - Header::BYTES) / Descriptor::BYTES);
        if max == 0 || !self.blocks.are_due() || self.sends.len() >= self.config.sends as usize {
            return Ok(());
        }
        let Ok(chunk) = pool.take() else { return Ok(()) };
        let granted = self.blocks.next(max);
        let header = self.protocol.grants(&granted);
        self.blocks.grant(granted.len());
        let payload: Vec<u8> = granted.iter().flat_map(Descriptor::to_bytes).collect();
        self.sends.push(Sent::Data(chunk));
        pool.write(chunk, 0, &header.to_bytes())?;
        pool.write(chunk, Header::BYTES, &payload)?;
        let gather = [pool.sge(chunk, Header::BYTES + payload.len())?];
        self.post_message(SendRequest::send(SendData::Gather(&gather)))
    }

    fn post_message(&mut self, request: SendRequest<'_>) -> Result<(), verbs_api::Error> {
        let request = request.id(SEND_ID).signaled();
        self.pair.as_mut().map_or(Ok(()), |pair| pair.post_send(&request))
    }

    /// Reads bytes; `None` if there are none yet.
    pub fn read(&mut self, pool: &mut Pool, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        let mut done = 0;
        while done < buffer.len() {
            let Reading::Bytes(piece) = self.protocol.reading() else { break };
            let Some(own) = self.slots.get(piece.slot.0 as usize).copied() else { break };
            let chunk = self.blocks.of(piece.slot).unwrap_or(own);
            let len = piece.len.min(buffer.len() - done);
            if let Err(error) = pool.read(chunk, piece.offset, &mut buffer[done..done + len]) {
                return Some(Err(io::Error::other(error)));
            }
            if let Some(slot) = self.protocol.consume(len) {
                self.blocks.vacate(slot, pool);
                self.post(pool, slot);
            }
            done += len;
        }
        self.pump(pool);
        if done > 0 || buffer.is_empty() {
            return Some(Ok(done));
        }
        match self.protocol.reading() {
            Reading::Bytes(_) | Reading::Wait => None,
            Reading::Eof => Some(Ok(0)),
            Reading::Ended(end) => Some(Err(self.error(end).into())),
        }
    }

    /// Writes the first of these bytes; `None` if there is no room yet.
    pub fn write(&mut self, pool: &mut Pool, parts: &[IoSlice<'_>]) -> Option<io::Result<usize>> {
        let all: usize = parts.iter().map(|part| part.len()).sum();
        let mut done = 0;
        loop {
            match self.room() {
                Ok(0) => break,
                Ok(_) if done == all => break,
                Ok(max) => match self.send(pool, parts, done, (all - done, max)) {
                    Ok(0) => break,
                    Ok(len) => done += len,
                    Err(error) => return Some(Err(error.into())),
                },
                Err(error) if done == 0 => return Some(Err(error.into())),
                Err(_) => return Some(Ok(done)),
            }
        }
        (done > 0 || all == 0).then_some(Ok(done))
    }

    /// Bytes that the next message may have by SEND; 0 while there is no room for a message.
    fn room(&self) -> Result<usize, Error> {
        let own = self.config.chunk_bytes as usize - Header::BYTES;
        match self.protocol.room() {
            Room::Over(WriteRefused::Shut) => Err(Error::Shut),
            Room::Over(WriteRefused::Ended) => {
                Err(self.protocol.end().map_or(Error::Shut, |e| self.error(e)))
            }
            Room::Bytes(max) if self.pair.is_some() && self.sends.len() < self.config.sends as usize => {
                Ok(max.min(own))
            }
            Room::Bytes(_) | Room::Wait => Ok(0),
        }
    }

    /// Sends one message with the first of the `left` bytes of `parts` from `from` on, by SEND `max`
    /// at most. Returns how many they were; 0 if there is no memory.
    fn send(
        &mut self,
        pool: &mut Pool,
        parts: &[IoSlice<'_>],
        from: usize,
        (left, max): (usize, usize),
    ) -> Result<usize, Setup> {
        let (way, most, size) = self.way(left, max);
        let (way, most, chunk) = match pool.take_of(size) {
            Ok(chunk) => (way, most, chunk),
            Err(Setup::PoolFull { .. }) if size == Size::Large => match pool.take() {
                Ok(chunk) => (Way::Send, max, chunk),
                Err(Setup::PoolFull { .. }) => return Ok(0),
                Err(error) => return Err(error),
            },
            Err(Setup::PoolFull { .. }) => return Ok(0),
            Err(error) => return Err(error),
        };
        let len = left.min(most);
        let bytes = Bytes { parts, from, len };
        let posted = match way {
            Way::Send | Way::Write => self.post_data(pool, chunk, &bytes, way),
            Way::Read => self.post_offer(pool, chunk, &bytes),
        };
        if let Err(error) = posted {
            self.sends.take_back(pool);
            self.protocol.lose();
            return Err(error.into());
        }
        self.sent[way as usize] += 1;
        Ok(len)
    }

    /// How the next of `left` bytes go, how many at most, and what memory they need.
    fn way(&self, left: usize, max: usize) -> (Way, usize, Size) {
        let block = self.config.block_bytes as usize;
        if left >= self.config.read_from && self.protocol.may_offer() {
            return (Way::Read, block, Size::Large);
        }
        match self.protocol.grant() {
            Some(granted) if left >= self.config.write_from => {
                let most = block.min(granted.len as usize) - Header::BYTES;
                let fits = left.min(most) + Header::BYTES <= self.config.chunk_bytes as usize;
                (Way::Write, most, if fits { Size::Small } else { Size::Large })
            }
            _ => (Way::Send, max, Size::Small),
        }
    }

    /// Sends bytes behind their header, in this chunk.
    fn post_data(
        &mut self,
        pool: &Pool,
        chunk: Chunk,
        bytes: &Bytes<'_>,
        way: Way,
    ) -> Result<(), verbs_api::Error> {
        // It goes back when the message completes, or the link goes.
        self.sends.push(Sent::Data(chunk));
        bytes.copy(pool, chunk, Header::BYTES)?;
        let len = u32::try_from(bytes.len).unwrap_or(u32::MAX);
        let gather = [pool.sge(chunk, Header::BYTES + bytes.len)?];
        let data = SendData::Gather(&gather);
        let granted = self.protocol.grant().filter(|_| way == Way::Write);
        let (header, request) = match granted {
            Some(granted) => {
                let (header, number) = self.protocol.written(len, || bytes.crc());
                let to = RemoteAddr { addr: granted.addr, rkey: granted.rkey };
                (header, SendRequest::write(data, to).with_imm(number))
            }
            None => (self.protocol.data(len, || bytes.crc()), SendRequest::send(data)),
        };
        pool.write(chunk, 0, &header.to_bytes())?;
        self.post_message(request)
    }

    /// Offers bytes, in this chunk.
    fn post_offer(&mut self, pool: &Pool, chunk: Chunk, bytes: &Bytes<'_>) -> Result<(), verbs_api::Error> {
        let Some(pair) = &mut self.pair else {
            self.sends.push(Sent::Data(chunk));
            return Ok(());
        };
        let shown = bytes
            .copy(pool, chunk, 0)
            .and_then(|()| pool.show(chunk, bytes.len, Access::REMOTE_READ, (pair, BIND_ID)));
        let (window, descriptor) = match shown {
            Ok(shown) => shown,
            Err(error) => {
                self.sends.push(Sent::Data(chunk));
                return Err(error);
            }
        };
        let header = self.protocol.offer(descriptor.len);
        self.sends.push(Sent::Offer { chunk, window, end: self.protocol.position() });
        let message = [header.to_bytes().as_slice(), &descriptor.to_bytes()].concat();
        self.post_message(SendRequest::send(SendData::Inline(&message)))
    }

    fn error(&self, end: End) -> Error {
        match end {
            End::Reset(reason) => Error::of_reset(reason),
            End::Violation(violation) => Error::Violation(violation),
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

    /// Returns `true` if nobody has its stream and all that was written has arrived, or cannot.
    pub fn is_over(&self) -> bool {
        self.dropped && (self.sends.is_empty() || self.protocol.end() == Some(End::Lost))
    }

    /// The rule that the peer broke, once.
    pub fn take_violation(&mut self) -> Option<crate::protocol::Violation> {
        let Some(End::Violation(violation)) = self.protocol.end() else { return None };
        let first = !core::mem::replace(&mut self.counted, true);
        first.then_some(violation)
    }
}

/// Bytes that a program writes: `len` of those of `parts`, from `from` on.
struct Bytes<'a> {
    parts: &'a [IoSlice<'a>],
    from: usize,
    len: usize,
}

impl Bytes<'_> {
    fn copy(&self, pool: &Pool, chunk: Chunk, mut at: usize) -> Result<(), verbs_api::Error> {
        for part in pieces(self.parts, self.from, self.len) {
            pool.write(chunk, at, part)?;
            at += part.len();
        }
        Ok(())
    }

    fn crc(&self) -> u32 {
        pieces(self.parts, self.from, self.len).fold(0, crc32c::crc32c_append)
    }
}

/// The parts that have the `len` bytes from `from` on.
fn pieces<'a>(parts: &'a [IoSlice<'a>], from: usize, len: usize) -> impl Iterator<Item = &'a [u8]> {
    let (mut skip, mut left) = (from, len);
    parts.iter().filter_map(move |part| {
        let start = skip.min(part.len());
        skip -= start;
        let piece = &part[start..start + left.min(part.len() - start)];
        left -= piece.len();
        (!piece.is_empty()).then_some(piece)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_bytes_between() {
        let parts = [&b"abc"[..], b"", b"defg", b"h"].map(IoSlice::new);
        let whole = b"abcdefgh";
        for from in 0..=8 {
            for len in 0..=8 - from {
                let found: Vec<&[u8]> = pieces(&parts, from, len).collect();
                assert_eq!(found.concat(), whole[from..from + len]);
            }
        }
    }
}
