//! The side channel: lines of text, where the two sides of a tool agree before and after the
//! traffic; over TCP, or over a connection of the device's own.
//!
//! Each side begins with a line that names the tool and its version; each further line is a key and
//! a value. `failed` may come at any time.

mod cm;
mod stream;

use crate::dial;
use crate::error::{Error, Result};
use crate::pump::{Drive, PEER_WAIT, wait_for, wait_until};
use cm::Meeting;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::str::FromStr;
use std::time::{Duration, Instant};
use verbs_api::{Device, Endpoint, PreparedQueuePair, QueuePair};

/// Longest line that is read: twenty times what is needed.
const LINE_MAX: usize = 4096;
/// How soon a peer that fails says so, and hears why we do.
const REASON: Duration = Duration::from_secs(1);

/// What carries the lines: bytes in order, both ways. Reading never blocks.
trait Carrier: Read + Write {
    /// Nothing more is said. Sees to it that the peer gets what was, `patience` at most.
    fn finish(&mut self, patience: Duration);
}

impl Carrier for TcpStream {
    /// The kernel does, behind the end of the process as well.
    fn finish(&mut self, _patience: Duration) {}
}

/// What to do if nobody listens at `address`. A server of ours listens to its own host alone,
/// unless it is told otherwise.
fn remedy(address: SocketAddr) -> String {
    let ip = address.ip();
    let bind = if ip.is_loopback() { String::new() } else { format!(" and --bind {ip}") };
    format!("start the other end there, with the same options{bind}")
}

/// A connected side channel. Reading never blocks: whoever waits runs the engine.
pub struct Channel {
    carrier: Box<dyn Carrier>,
    /// How queue pairs are connected, if not by endpoints that are said here.
    meeting: Option<Rc<Meeting>>,
    /// The addresses of both ends, ours and the peer's.
    ends: [IpAddr; 2],
    /// The server's address.
    address: SocketAddr,
    /// Bytes read and not yet taken.
    inbox: Vec<u8>,
    /// A line that came before anybody wanted to hear it.
    early: Option<String>,
}

impl Channel {
    /// Waits at `address` for the peer, at most `limit`, and exchanges versions: the tool's name
    /// and a number. `listening` is called as soon as a peer can come.
    ///
    /// # Errors
    /// [`Error::Channel`], [`Error::Late`], [`Error::Unexpected`].
    pub fn accept(
        engine: &impl Drive,
        version: &'static str,
        address: SocketAddr,
        limit: Option<Duration>,
        listening: impl FnOnce(),
    ) -> Result<Self> {
        let fails = |doing| move |source| Error::Channel { address, doing, source };
        let listener = TcpListener::bind(address).map_err(fails("listen"))?;
        listener.set_nonblocking(true).map_err(fails("listen"))?;
        listening();
        let stream = wait_until(engine, "no peer came", limit, || match listener.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(fails("accept")(error)),
        })?;
        Self::by_tcp(engine, version, stream, address)
    }

    /// Connects to the peer as soon as it listens, and exchanges versions.
    ///
    /// # Errors
    /// As [`Channel::accept`].
    pub fn connect(engine: &impl Drive, version: &'static str, address: SocketAddr) -> Result<Self> {
        let stream = dial::tcp(engine, address, "no peer was there", &remedy(address))?;
        Self::by_tcp(engine, version, stream, address)
    }

    fn by_tcp(
        engine: &impl Drive,
        version: &'static str,
        stream: TcpStream,
        address: SocketAddr,
    ) -> Result<Self> {
        let fails = |source| Error::Channel { address, doing: "set it up", source };
        stream.set_nonblocking(true).map_err(fails)?;
        stream.set_nodelay(true).map_err(fails)?;
        let (ours, theirs) = (stream.local_addr().map_err(fails)?, stream.peer_addr().map_err(fails)?);
        let (carrier, ends) = (Box::new(stream), [ours.ip(), theirs.ip()]);
        let channel = Self { carrier, meeting: None, ends, address, inbox: Vec::new(), early: None };
        channel.greet(engine, version)
    }

    /// Exchanges versions.
    fn greet(mut self, engine: &impl Drive, version: &'static str) -> Result<Self> {
        self.write(version)?;
        let said = wait_for(engine, "the peer did not say its version", || self.poll())?;
        if said != version {
            // The peer is to hear ours, too, before we leave.
            self.finish(REASON);
            return Err(Error::Unexpected { said, expected: version });
        }
        Ok(self)
    }

    /// The addresses of both ends, ours and the peer's: further connections between them go the
    /// same way.
    #[must_use]
    pub const fn ends(&self) -> [IpAddr; 2] {
        self.ends
    }

    /// Connects a queue pair with the peer's next one: by endpoints that both say here, or by the
    /// connection manager if that made the channel.
    ///
    /// # Errors
    /// [`Error::Verbs`], and those of [`Channel::hear`].
    pub fn join(&mut self, device: &Device, pair: PreparedQueuePair) -> Result<QueuePair> {
        if let Some(meeting) = self.meeting.clone() {
            return meeting.join(self, device, pair);
        }
        self.say("endpoint", pair.endpoint())?;
        let remote: Endpoint = self.hear(device, "endpoint")?;
        Self::check_distinct(device, remote.ip)?;
        Ok(pair.connect(&remote)?)
    }

    /// The peer has a device of its own. With our address, its packets would come back to it.
    ///
    /// # Errors
    /// [`Error::SameAddress`].
    pub fn check_distinct(device: &Device, peer: IpAddr) -> Result<()> {
        if peer == device.ip() { Err(Error::SameAddress(peer)) } else { Ok(()) }
    }

    /// Nothing more is said. Sees to it that the peer gets what was, `patience` at most.
    pub fn finish(&mut self, patience: Duration) {
        self.carrier.finish(patience);
    }

    /// Why the peer fails, if it says so, or leaves, within a second; else `error`.
    pub fn reason(&mut self, error: Error) -> Error {
        let since = Instant::now();
        while since.elapsed() < REASON {
            if let Err(reason) = self.poll() {
                return reason;
            }
            std::thread::yield_now();
        }
        error
    }

    /// Says `key` with a value.
    ///
    /// # Errors
    /// [`Error::PeerLeft`], [`Error::Channel`].
    pub fn say(&mut self, key: &str, value: impl std::fmt::Display) -> Result<()> {
        self.write(&format!("{key} {value}"))
    }

    /// Says `failed`, if the peer is still there to hear it.
    pub fn say_failed(&mut self, error: &Error) {
        let reason = error.to_string().replace('\n', " ");
        let _ = self.say("failed", reason);
    }

    /// Runs the engine until the peer says `key` and a value, which it does at once if it is there.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::PeerFailed`], [`Error::PeerLeft`], [`Error::Unexpected`],
    /// [`Error::Channel`].
    pub fn hear<T: FromStr>(&mut self, engine: &impl Drive, key: &'static str) -> Result<T> {
        self.hear_within(engine, key, Some(PEER_WAIT))
    }

    /// What the peer says under `key`, however long it takes.
    ///
    /// # Errors
    /// As [`Channel::hear`], but never late.
    pub fn hear_at_last<T: FromStr>(&mut self, engine: &impl Drive, key: &'static str) -> Result<T> {
        self.hear_within(engine, key, None)
    }

    fn hear_within<T: FromStr>(
        &mut self,
        engine: &impl Drive,
        key: &'static str,
        limit: Option<Duration>,
    ) -> Result<T> {
        let said = wait_until(engine, "the peer did not answer", limit, || {
            self.early.take().map_or_else(|| self.poll(), |line| Ok(Some(line)))
        })?;
        let value = said.strip_prefix(key).and_then(|rest| rest.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).ok_or(Error::Unexpected { said, expected: key })
    }

    /// An error if the peer failed or left. What else it says is kept for [`Channel::hear`].
    ///
    /// # Errors
    /// [`Error::PeerFailed`], [`Error::PeerLeft`], [`Error::Unexpected`], [`Error::Channel`].
    pub fn check(&mut self) -> Result<()> {
        if self.early.is_none() {
            self.early = self.poll()?;
        }
        Ok(())
    }

    /// Returns `true` if a line waits for [`Channel::hear`], as of the last [`Channel::check`].
    #[must_use]
    pub fn has_line(&self) -> bool {
        self.early.is_some()
    }

    fn write(&mut self, line: &str) -> Result<()> {
        // A few hundred bytes at most before the peer answers: the socket's buffer takes them at
        // once.
        let mut bytes = line.as_bytes().to_vec();
        bytes.push(b'\n');
        self.carrier.write_all(&bytes).map_err(|source| match source.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => self.farewell(),
            _ => Error::Channel { address: self.address, doing: "write", source },
        })
    }

    /// Why the peer left, if it said so.
    fn farewell(&mut self) -> Error {
        loop {
            match self.poll() {
                Ok(Some(_)) => {}
                Ok(None) => return Error::PeerLeft,
                Err(error) => return error,
            }
        }
    }

    /// The next line, if it is there.
    fn poll(&mut self) -> Result<Option<String>> {
        let mut block = [0; 1024];
        let mut closed = false;
        while !self.inbox.contains(&b'\n') && !closed {
            match self.carrier.read(&mut block) {
                Ok(0) => closed = true,
                Ok(count) => self.inbox.extend_from_slice(&block[..count]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(None),
                    ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionReset => closed = true,
                    _ => {
                        return Err(Error::Channel { address: self.address, doing: "read", source: error });
                    }
                },
            }
            if self.inbox.len() > LINE_MAX {
                let said = String::from_utf8_lossy(&self.inbox[..40]).into_owned();
                return Err(Error::Unexpected { said, expected: "a line" });
            }
        }
        let Some(end) = self.inbox.iter().position(|byte| *byte == b'\n') else {
            return Err(Error::PeerLeft);
        };
        let line: Vec<u8> = self.inbox.drain(..=end).collect();
        let line = String::from_utf8_lossy(&line[..end]).into_owned();
        match line.strip_prefix("failed ") {
            Some(reason) => Err(Error::PeerFailed(reason.to_owned())),
            None => Ok(Some(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_another_host_is_to_listen_to_others() {
        let said = |address: &str| remedy(address.parse().expect("an address"));
        assert!(said("192.0.2.1:18515").ends_with("with the same options and --bind 192.0.2.1"));
        assert!(said("127.0.0.1:18515").ends_with("with the same options"));
    }
}
