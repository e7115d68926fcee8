//! One connection of an endpoint: its queue pair, its protocol, and the memory of its messages.

use crate::config::Config;
use crate::error::{Error, Setup};
use crate::pool::{Chunk, Pool};
use crate::protocol::{Connection, End, Fate, Header, Hello, Reading, Room, Slot, WriteRefused};
use core::net::SocketAddr;
use core::task::Waker;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use verbs_api::{Completion, PreparedQueuePair, QueuePair, RecvRequest, SendData, SendRequest, WcStatus};

/// Work requests of sends have this number; those of receives have their slot's.
const SEND_ID: u64 = 1 << 32;
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
    /// The memory of each send that is not complete, oldest first; `None` for those without.
    sends: VecDeque<Option<Chunk>>,
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
            sends: VecDeque::new(),
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
    pub fn connected(&mut self, pool: &Pool, pair: QueuePair, peer: &Hello) {
        self.protocol.meet(peer);
        self.pair = Some(pair);
        for slot in core::mem::take(&mut self.unposted) {
            self.post(pool, slot);
        }
        self.pump();
    }

    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.pair.as_ref()?.peer_addr()
    }

    /// Gives all memory back. The queue pair goes first: what it has posted is not used any more.
    pub fn release(&mut self, pool: &mut Pool) {
        self.pair = None;
        let chunks = self.slots.drain(..).chain(self.sends.drain(..).flatten());
        chunks.for_each(|chunk| pool.give(chunk));
    }

    /// A work request has ended.
    pub fn complete(&mut self, pool: &mut Pool, done: &Completion) {
        let is_send = done.wr_id == SEND_ID;
        if is_send && let Some(Some(chunk)) = self.sends.pop_front() {
            pool.give(chunk);
        }
        if done.status != WcStatus::Success {
            self.fail(done.status);
        } else if !is_send {
            self.receive(pool, done);
        }
        self.pump();
    }

    fn fail(&mut self, status: WcStatus) {
        if status != WcStatus::WrFlushErr {
            self.failure.get_or_insert(status);
        }
        self.protocol.lose();
    }

    fn receive(&mut self, pool: &Pool, done: &Completion) {
        let slot = Slot(u32::try_from(done.wr_id).unwrap_or(u32::MAX));
        let Some(chunk) = self.slots.get(slot.0 as usize).copied() else { return };
        let mut header = [0; Header::BYTES];
        // A chunk of ours is long enough. The header is looked at where no peer can change it.
        let _ = pool.read(chunk, 0, &mut header);
        let crc = |len| checksum(pool, chunk, len);
        if self.protocol.receive(slot, done.byte_len as usize, &header, crc) == Fate::Repost {
            self.post(pool, slot);
        }
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

    /// Sends what the protocol has to say by itself.
    pub fn pump(&mut self) {
        let Some(pair) = &mut self.pair else { return };
        while self.sends.len() < self.config.send_places() as usize {
            let Some(header) = self.protocol.next_control() else { return };
            let bytes = header.to_bytes();
            let request = SendRequest::send(SendData::Inline(&bytes)).id(SEND_ID).signaled();
            if pair.post_send(&request).is_err() {
                self.protocol.lose();
                return;
            }
            self.sends.push_back(None);
        }
    }

    /// Reads bytes; `None` if there are none yet.
    pub fn read(&mut self, pool: &Pool, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        let mut done = 0;
        while done < buffer.len() {
            let Reading::Bytes(piece) = self.protocol.reading() else { break };
            let Some(chunk) = self.slots.get(piece.slot.0 as usize).copied() else { break };
            let len = piece.len.min(buffer.len() - done);
            if let Err(error) = pool.read(chunk, piece.offset, &mut buffer[done..done + len]) {
                return Some(Err(io::Error::other(error)));
            }
            if let Some(slot) = self.protocol.consume(len) {
                self.post(pool, slot);
            }
            done += len;
        }
        self.pump();
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
            let len = match self.next_message(all - done) {
                Ok(len) => len,
                Err(error) if done == 0 => return Some(Err(error.into())),
                Err(_) => return Some(Ok(done)),
            };
            if len == 0 {
                break;
            }
            match pool.take() {
                Ok(chunk) => {
                    if let Err(error) = self.send(pool, chunk, parts, done, len) {
                        return Some(Err(io::Error::other(error)));
                    }
                    done += len;
                }
                Err(Setup::PoolFull { .. }) => break,
                Err(error) => return Some(Err(error.into())),
            }
        }
        (done > 0 || all == 0).then_some(Ok(done))
    }

    /// Bytes of `left` that the next message may have; 0 while there is no room.
    fn next_message(&self, left: usize) -> Result<usize, Error> {
        let own = self.config.chunk_bytes as usize - Header::BYTES;
        match self.protocol.room() {
            Room::Over(WriteRefused::Shut) => Err(Error::Shut),
            Room::Over(WriteRefused::Ended) => {
                Err(self.protocol.end().map_or(Error::Shut, |e| self.error(e)))
            }
            Room::Bytes(max) if self.pair.is_some() && self.sends.len() < self.config.sends as usize => {
                Ok(left.min(max).min(own))
            }
            Room::Bytes(_) | Room::Wait => Ok(0),
        }
    }

    /// Sends `len` bytes of `parts` from `from` on, in this chunk.
    fn send(
        &mut self,
        pool: &mut Pool,
        chunk: Chunk,
        parts: &[IoSlice<'_>],
        from: usize,
        len: usize,
    ) -> Result<(), verbs_api::Error> {
        // It goes back when the send completes, or the link goes.
        self.sends.push_back(Some(chunk));
        let mut at = Header::BYTES;
        for part in pieces(parts, from, len) {
            pool.write(chunk, at, part)?;
            at += part.len();
        }
        let crc = || pieces(parts, from, len).fold(0, crc32c::crc32c_append);
        let header = self.protocol.data(u32::try_from(len).unwrap_or(u32::MAX), crc);
        pool.write(chunk, 0, &header.to_bytes())?;
        let gather = [pool.sge(chunk, at)?];
        let request = SendRequest::send(SendData::Gather(&gather)).id(SEND_ID).signaled();
        let posted = self.pair.as_mut().map_or(Ok(()), |pair| pair.post_send(&request));
        if posted.is_err() {
            self.sends.pop_back();
            pool.give(chunk);
            self.protocol.lose();
        }
        posted
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
        self.pump();
    }

    /// The program gives the stream up.
    pub fn abort(&mut self) {
        self.protocol.abort();
        self.pump();
    }

    /// Nobody has its stream any more.
    pub fn drop_stream(&mut self) {
        self.dropped = true;
        self.protocol.drop_stream();
        self.pump();
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

/// CRC32C of `len` bytes behind the header.
fn checksum(pool: &Pool, chunk: Chunk, len: usize) -> u32 {
    let mut buffer = [0; STRIDE];
    let mut crc = 0;
    for at in (0..len).step_by(STRIDE) {
        let part = &mut buffer[..STRIDE.min(len - at)];
        // Inside: the message came into it.
        let _ = pool.read(chunk, Header::BYTES + at, part);
        crc = crc32c::crc32c_append(crc, part);
    }
    crc
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
