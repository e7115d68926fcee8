//! The bytes that go out: by SEND, WRITE or READ, or by TCP.

use super::{BIND_ID, Carrier, Link};
use crate::endpoint::Way;
use crate::endpoint::sending::Sent;
use crate::endpoint::tcp::Outbox;
use crate::error::{Error, Setup};
use crate::lent::{Filled, Lent};
use crate::pool::{Chunk, Pool, Size};
use crate::protocol::{Header, Room, Violation, WriteRefused};
use core::time::Duration;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Instant;
use verbs_api::{Access, RemoteAddr, SendData, SendRequest};

/// Blocks under way with which long messages rather wait for a grant than go by SEND.
const AHEAD: usize = 2;
/// How long a writer has waited for a grant if the peer is to know, and how long its messages take
/// at least on a path where more grants help.
const LONG: Duration = Duration::from_micros(200);
/// Bytes of messages whose time is taken: of shorter ones that would cost too much.
const TIMED_BYTES: usize = 8192;

impl Link {
    /// Sends again what the peer has not got over the carriers before.
    pub(super) fn resend(&mut self, pool: &mut Pool) {
        while self.has_place() {
            let room = self.protocol.resend_room().min(self.config.chunk_bytes as usize - Header::BYTES);
            if room == 0 {
                return;
            }
            let (base, bytes) = &self.backlog;
            let at = self.protocol.position().checked_sub(*base).and_then(|at| usize::try_from(at).ok());
            let Some(bytes) = at.and_then(|at| bytes.get(at..at + room)).map(<[u8]>::to_vec) else {
                // The peer gives back what it has had.
                return self.protocol.violate(Violation::Taken);
            };
            let parts = [IoSlice::new(&bytes)];
            let sent = self.send(pool, &parts, 0, (room, room), true);
            if !matches!(sent, Ok(1..)) {
                // Of a queue pair that has failed completions tell.
                self.hungry = true;
                return;
            }
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
                Ok(max) => match self.send(pool, parts, done, (all - done, max), false) {
                    Ok(0) => break,
                    Ok(len) => {
                        done += len;
                        self.carried.written += len as u64;
                    }
                    Err(error) => return Some(Err(error.into())),
                },
                Err(error) if done == 0 => return Some(Err(error.into())),
                Err(_) => return Some(Ok(done)),
            }
        }
        (done > 0 || all == 0).then_some(Ok(done))
    }

    fn has_place(&self) -> bool {
        !matches!(self.carrier, Carrier::None) && self.sends.len() < self.config.sends as usize
    }

    /// Bytes that the next message may have by SEND; 0 while there is no room for a message.
    fn room(&self) -> Result<usize, Error> {
        let own = self.config.chunk_bytes as usize - Header::BYTES;
        match self.protocol.room() {
            Room::Over(WriteRefused::Shut) => Err(Error::Shut),
            Room::Over(WriteRefused::Ended) => {
                Err(self.protocol.end().map_or(Error::Shut, |e| self.error(e)))
            }
            Room::Bytes(max) if self.has_place() => Ok(max.min(own)),
            Room::Bytes(_) | Room::Wait => Ok(0),
        }
    }

    /// Sends one message with the first of the `left` bytes of `parts` from `from` on, by SEND
    /// `max` at most, and by nothing else if `plain`. Returns how many they were; 0 if there is no
    /// memory.
    fn send(
        &mut self,
        pool: &mut Pool,
        parts: &[IoSlice<'_>],
        from: usize,
        (left, max): (usize, usize),
        plain: bool,
    ) -> Result<usize, Setup> {
        if let Carrier::Tcp(out, _) = &self.carrier {
            let out = Arc::clone(out);
            return Ok(self.send_by_tcp(&out, &Bytes { parts, from, len: left.min(max) }));
        }
        let plan = if plain { Some((Way::Send, max, Size::Small)) } else { self.way(left, max) };
        let Some((way, most, size)) = plan else { return Ok(0) };
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
        let bytes = Bytes { parts, from, len: left.min(most) };
        let offset = if way == Way::Read { 0 } else { Header::BYTES };
        if let Err(error) = bytes.copy(pool, chunk, offset) {
            pool.give(chunk);
            return Err(error.into());
        }
        let placed = Placed { chunk, header: None, offset, len: bytes.len };
        let sent = self.post_bytes(pool, placed, way, || bytes.crc())?;
        if sent == 0 {
            pool.give(chunk);
        }
        Ok(sent)
    }

    /// Memory to write at most `len` bytes in place; `None` if there is none yet. It comes back by
    /// [`write_filled`](Self::write_filled), or goes back to the pool.
    pub fn space(&self, pool: &mut Pool, len: usize) -> Option<io::Result<Lent>> {
        if let Err(error) = self.room() {
            return Some(Err(error.into()));
        }
        let (small, large) = (self.config.chunk_bytes, self.config.block_bytes);
        let is_long = large > small && len.saturating_add(Header::BYTES) > small as usize;
        let never = usize::MAX;
        let is_useful =
            self.config.write_from < never || self.config.read_from < never && self.protocol.may_offer();
        let block = if is_long && is_useful { pool.take_of(Size::Large).ok() } else { None };
        let (taken, most) = match block {
            Some(block) => (Ok(block), large),
            None => (pool.take(), small),
        };
        match taken {
            Err(Setup::PoolFull { .. }) => None,
            Err(error) => Some(Err(error.into())),
            // SAFETY: the pool gives a chunk that nobody has, and no request and no window names.
            // The program has it until it is sent or given back.
            Ok(chunk) => unsafe { pool.lend(chunk, Header::BYTES..most as usize) }.map(Ok),
        }
    }

    /// Sends the first of the bytes that a program has put into memory, as one message, from where
    /// they lie; over TCP, a copy of them. `None` if there is no room yet.
    pub fn write_filled(&mut self, pool: &mut Pool, filled: &mut Filled) -> Option<io::Result<()>> {
        let max = match self.room() {
            Ok(0) => return None,
            Ok(max) => max,
            Err(error) => return Some(Err(error.into())),
        };
        if self.is_by_tcp() {
            let written = self.write(pool, &[IoSlice::new(filled.bytes())])?;
            return Some(written.map(|len| filled.skip(len)));
        }
        let (way, most, _) = self.way(filled.bytes().len(), max)?;
        let bytes = &filled.bytes()[..most.min(filled.bytes().len())];
        let (chunk, offset) = filled.place()?;
        // Before the first bytes there is room for a header; before others lie those.
        let header = match way {
            Way::Send | Way::Write if offset > Header::BYTES => match pool.take() {
                Ok(header) => Some(header),
                Err(Setup::PoolFull { .. }) => return None,
                Err(error) => return Some(Err(error.into())),
            },
            Way::Send | Way::Write | Way::Read => None,
        };
        pool.hold(chunk);
        let placed = Placed { chunk, header, offset, len: bytes.len() };
        let len = match self.post_bytes(pool, placed, way, || crc32c::crc32c(bytes)) {
            Ok(0) => {
                pool.give(chunk);
                return None;
            }
            Ok(len) => len,
            Err(error) => return Some(Err(error.into())),
        };
        filled.skip(len);
        self.carried.written += len as u64;
        self.carried.written_in_place += len as u64;
        Some(Ok(()))
    }

    /// Sends bytes from where they lie, and returns how many. The memory is the link's from now on,
    /// even if it fails, but not if none were sent: then there is no memory for a header.
    fn post_bytes(
        &mut self,
        pool: &mut Pool,
        mut placed: Placed,
        mut way: Way,
        crc: impl FnOnce() -> u32,
    ) -> Result<usize, Setup> {
        let offered = if way == Way::Read { Some(self.post_offer(pool, &placed)) } else { None };
        let posted = match offered {
            // All windows are in use. What would be offered has no checksum, so that a part may go.
            Some(Err(verbs_api::Error::Register(_))) => {
                let (Ok(max @ 1..), Ok(header)) = (self.room(), pool.take()) else { return Ok(0) };
                way = Way::Send;
                placed = Placed { header: Some(header), len: placed.len.min(max), ..placed };
                self.post_data(pool, &placed, way, crc)
            }
            Some(posted) => posted,
            None => self.post_data(pool, &placed, way, crc),
        };
        // Of a queue pair that has failed, and that another carrier may follow, completions tell:
        // the bytes are kept.
        if let Err(error) = posted
            && self.moves.is_none()
        {
            self.sends.take_back(pool);
            self.protocol.lose();
            return Err(error.into());
        }
        self.carried.sent[way as usize] += 1;
        Ok(placed.len)
    }

    fn send_by_tcp(&mut self, out: &Outbox, bytes: &Bytes<'_>) -> usize {
        let header = self.protocol.data(u32::try_from(bytes.len).unwrap_or(u32::MAX), || bytes.crc());
        let mut message = header.to_bytes().to_vec();
        pieces(bytes.parts, bytes.from, bytes.len).for_each(|part| message.extend_from_slice(part));
        let message: Arc<[u8]> = message.into();
        let (offset, end) = (Header::BYTES, self.protocol.position());
        self.sends.push(Sent::Told { message: Arc::clone(&message), offset, end });
        out.push(message);
        self.ask();
        self.control();
        bytes.len
    }

    /// How the next of `left` bytes go, how many at most, and what memory they need. `None`: they
    /// wait for a grant, which may come before the path has carried what is under way.
    fn way(&mut self, left: usize, max: usize) -> Option<(Way, usize, Size)> {
        let block = self.config.block_bytes as usize;
        if left >= self.config.read_from && self.protocol.may_offer() {
            return Some((Way::Read, block, Size::Large));
        }
        if left < self.config.write_from {
            return Some((Way::Send, max, Size::Small));
        }
        match self.protocol.grant() {
            Some(granted) => {
                let most = block.min(granted.len as usize) - Header::BYTES;
                let fits = left.min(most) + Header::BYTES <= self.config.chunk_bytes as usize;
                Some((Way::Write, most, if fits { Size::Small } else { Size::Large }))
            }
            None => {
                let ahead = AHEAD * block.max(self.config.chunk_bytes as usize);
                let waits = self.protocol.was_granted() && self.sends.bytes_under_way() >= ahead;
                if waits {
                    self.waits_since.get_or_insert_with(Instant::now);
                }
                (!waits).then_some((Way::Send, max, Size::Small))
            }
        }
    }

    /// Returns `true` if the writer has waited long for the grant that it uses now, and the path is
    /// what takes long: no message has been faster. On a short path it has waited for the peer.
    fn has_waited(&mut self) -> bool {
        let waited = self.waits_since.take().is_some_and(|since| since.elapsed() >= LONG);
        waited && self.sends.least_time().is_some_and(|least| least >= LONG)
    }

    /// Sends bytes behind their header.
    fn post_data(
        &mut self,
        pool: &Pool,
        placed: &Placed,
        way: Way,
        crc: impl FnOnce() -> u32,
    ) -> Result<(), verbs_api::Error> {
        let Placed { chunk, header, offset, len } = *placed;
        // It goes back when the message completes, or the link goes.
        self.sends.push(Sent::Data { chunk, header, offset, len });
        if len >= TIMED_BYTES {
            self.sends.time();
        }
        let length = u32::try_from(len).unwrap_or(u32::MAX);
        let place = header.map_or_else(|| (chunk, offset - Header::BYTES), |header| (header, 0));
        let (whole, parts);
        let data = SendData::Gather(match header {
            None => {
                whole = [pool.sge(chunk, place.1..offset + len)?];
                &whole
            }
            Some(header) => {
                parts = [pool.sge(header, 0..Header::BYTES)?, pool.sge(chunk, offset..offset + len)?];
                &parts
            }
        });
        let granted = self.protocol.grant().filter(|_| way == Way::Write);
        let (header, request) = match granted {
            Some(granted) => {
                let waited = self.has_waited();
                let (header, number) = self.protocol.written(length, waited, crc);
                let to = RemoteAddr { addr: granted.addr, rkey: granted.rkey };
                (header, SendRequest::write(data, to).with_imm(number))
            }
            None => (self.protocol.data(length, crc), SendRequest::send(data)),
        };
        pool.write(place.0, place.1, &header.to_bytes())?;
        self.post_message(request)
    }

    /// Offers bytes. If there is no window ([`verbs_api::Error::Register`]) nothing is done.
    fn post_offer(&mut self, pool: &Pool, placed: &Placed) -> Result<(), verbs_api::Error> {
        let Placed { chunk, offset, len, .. } = *placed;
        let shown = match self.carrier.pair() {
            None => Err(verbs_api::Error::Unsupported("an offer without a queue pair")),
            Some(pair) => pool.show(chunk, offset..offset + len, Access::REMOTE_READ, (pair, BIND_ID)),
        };
        let (window, descriptor) = match shown {
            Ok(shown) => shown,
            Err(error @ verbs_api::Error::Register(_)) => return Err(error),
            Err(error) => {
                self.sends.push(Sent::Data { chunk, header: None, offset, len });
                let _ = self.protocol.offer(u32::try_from(len).unwrap_or(u32::MAX));
                return Err(error);
            }
        };
        let header = self.protocol.offer(descriptor.len);
        self.sends.push(Sent::Offer { chunk, window, offset, len, end: self.protocol.position() });
        let message = [header.to_bytes().as_slice(), &descriptor.to_bytes()].concat();
        self.post_message(SendRequest::send(SendData::Inline(&message)))
    }
}

/// Where bytes lie that are to be sent: `len` from `offset` on.
struct Placed {
    chunk: Chunk,
    /// Memory for their header if it does not lie before them. What is offered has none.
    header: Option<Chunk>,
    offset: usize,
    len: usize,
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
