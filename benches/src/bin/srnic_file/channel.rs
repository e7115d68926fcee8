//! The side channel: lines of text over TCP on this host, where the two sides agree before and after the transfer.
//!
//! Each side begins with the version line. Then the sender says `file` and `endpoint`, the receiver `region` and
//! `endpoint`; after the transfer the receiver says `received` and the sender `done`. `failed` may come at any time.

use crate::error::{Error, Result};
use crate::pump::wait_for;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::str::FromStr;
use verbs_api::Device;

/// What both sides begin with.
const VERSION: &str = "srnic_file 1";
/// Longest line that is read: twenty times what is needed.
const LINE_MAX: usize = 4096;

/// A connected side channel. Reading never blocks: whoever waits runs the engine.
pub struct Channel {
    stream: TcpStream,
    port: u16,
    /// Bytes read and not yet taken.
    inbox: Vec<u8>,
    /// A line that came before anybody wanted to hear it.
    early: Option<String>,
}

impl Channel {
    /// Waits for the sender, and exchanges versions.
    pub fn accept(device: &Device, port: u16) -> Result<Self> {
        let fails = |doing| move |source| Error::Channel { port, doing, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(fails("listen"))?;
        listener.set_nonblocking(true).map_err(fails("listen"))?;
        let stream = wait_for(device, "no sender came", || match listener.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(fails("accept")(error)),
        })?;
        Self::greet(device, stream, port)
    }

    /// Connects to the receiver as soon as it listens, and exchanges versions.
    pub fn connect(device: &Device, port: u16) -> Result<Self> {
        let fails = |source| Error::Channel { port, doing: "connect", source };
        let stream = wait_for(device, "no receiver was there", || {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                Ok(stream) => Ok(Some(stream)),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(None),
                Err(error) => Err(fails(error)),
            }
        })?;
        Self::greet(device, stream, port)
    }

    fn greet(device: &Device, stream: TcpStream, port: u16) -> Result<Self> {
        let fails = |source| Error::Channel { port, doing: "set it up", source };
        stream.set_nonblocking(true).map_err(fails)?;
        stream.set_nodelay(true).map_err(fails)?;
        let mut channel = Self { stream, port, inbox: Vec::new(), early: None };
        channel.write(VERSION)?;
        let said = wait_for(device, "the peer did not say its version", || channel.poll())?;
        if said != VERSION {
            return Err(Error::Unexpected { said, expected: VERSION });
        }
        Ok(channel)
    }

    /// Says `key` with a value.
    pub fn say(&mut self, key: &str, value: impl std::fmt::Display) -> Result<()> {
        self.write(&format!("{key} {value}"))
    }

    /// Says `failed`, if the peer is still there to hear it.
    pub fn say_failed(&mut self, error: &Error) {
        let reason = error.to_string().replace('\n', " ");
        let _ = self.say("failed", reason);
    }

    /// Runs the engine until the peer says `key` and a value.
    pub fn hear<T: FromStr>(&mut self, device: &Device, key: &'static str) -> Result<T> {
        let said = wait_for(device, "the peer did not answer", || {
            self.early.take().map_or_else(|| self.poll(), |line| Ok(Some(line)))
        })?;
        let value = said.strip_prefix(key).and_then(|rest| rest.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).ok_or(Error::Unexpected { said, expected: key })
    }

    /// An error if the peer failed or left. What else it says is kept for [`Channel::hear`].
    pub fn check(&mut self) -> Result<()> {
        if self.early.is_none() {
            self.early = self.poll()?;
        }
        Ok(())
    }

    fn write(&mut self, line: &str) -> Result<()> {
        // A few hundred bytes at most in all: the socket's buffer takes them at once.
        let mut bytes = line.as_bytes().to_vec();
        bytes.push(b'\n');
        self.stream.write_all(&bytes).map_err(|source| match source.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Error::PeerLeft,
            _ => Error::Channel { port: self.port, doing: "write", source },
        })
    }

    /// The next line, if it is there.
    fn poll(&mut self) -> Result<Option<String>> {
        let mut block = [0; 1024];
        let mut closed = false;
        while !self.inbox.contains(&b'\n') && !closed {
            match self.stream.read(&mut block) {
                Ok(0) => closed = true,
                Ok(count) => self.inbox.extend_from_slice(&block[..count]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(None),
                    ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionReset => closed = true,
                    _ => return Err(Error::Channel { port: self.port, doing: "read", source: error }),
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
