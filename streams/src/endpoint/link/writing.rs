//! The bytes that go out: by SEND, WRITE or READ, or by TCP.

use super::{BIND_ID, Carrier, Link};
use crate::endpoint::Way;
use crate::endpoint::sending::Sent;
use crate::endpoint::tcp::Outbox;
use crate::error::{Error, Setup};
use crate::pool::{Chunk, Pool, Size};
use crate::protocol::{Header, Room, Violation, WriteRefused};
use std::io::{self, IoSlice};
use std::sync::Arc;
use verbs_api::{Access, RemoteAddr, SendData, SendRequest};

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
            if !matches!(self.send(pool, &parts, 0, (room, room), true), Ok(sent) if sent > 0) {
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
        let (way, most, size) = if plain { (Way::Send, max, Size::Small) } else { self.way(left, max) };
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
            if self.moves.is_some() {
                // The queue pair has failed, of which its completions tell; the bytes are kept.
                return Ok(len);
            }
            self.sends.take_back(pool);
            self.protocol.lose();
            return Err(error.into());
        }
        self.carried.sent[way as usize] += 1;
        Ok(len)
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
        self.sends.push(Sent::Data { chunk, offset: Header::BYTES, len: bytes.len });
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
        let len = bytes.len;
        let shown = match self.carrier.pair() {
            None => Err(verbs_api::Error::Unsupported("an offer without a queue pair")),
            Some(pair) => bytes
                .copy(pool, chunk, 0)
                .and_then(|()| pool.show(chunk, len, Access::REMOTE_READ, (pair, BIND_ID))),
        };
        let (window, descriptor) = match shown {
            Ok(shown) => shown,
            Err(error) => {
                self.sends.push(Sent::Data { chunk, offset: 0, len });
                let _ = self.protocol.offer(u32::try_from(len).unwrap_or(u32::MAX));
                return Err(error);
            }
        };
        let header = self.protocol.offer(descriptor.len);
        self.sends.push(Sent::Offer { chunk, window, len, end: self.protocol.position() });
        let message = [header.to_bytes().as_slice(), &descriptor.to_bytes()].concat();
        self.post_message(SendRequest::send(SendData::Inline(&message)))
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
