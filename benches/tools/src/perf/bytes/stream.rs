//! A connection whose bytes come in order, and whose calls wait or do not.

use crate::error::{Error, Result};
use crate::interrupt;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

/// How long a blocking call may take before Ctrl-C is looked for.
pub const BLOCKED: Duration = Duration::from_millis(200);

/// What carries the bytes.
pub trait Bytes: Read + Write {
    /// Says that nothing more comes.
    ///
    /// # Errors
    /// What the system says.
    fn end(&self) -> io::Result<()>;
}

/// A connection that is measured.
pub struct Stream<B> {
    bytes: B,
    /// Calls for nothing between two looks for Ctrl-C.
    interval: u32,
    idle: u32,
}

/// An error of a connection.
pub fn fails(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Tcp { doing, source }
}

impl<B: Bytes> Stream<B> {
    /// A connection that is there; Ctrl-C is looked for each so many calls for nothing.
    pub const fn new(bytes: B, interval: u32) -> Self {
        Self { bytes, interval, idle: 0 }
    }

    /// Writes a message.
    pub fn write_all(&mut self, message: &[u8]) -> Result<()> {
        // Who never waits must look for Ctrl-C as well.
        interrupt::check()?;
        let mut rest = message;
        while !rest.is_empty() {
            match self.bytes.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) => self.again(error, "write")?,
            }
        }
        Ok(())
    }

    /// Reads a message; false if the peer ended instead.
    pub fn read_all(&mut self, message: &mut [u8]) -> Result<bool> {
        interrupt::check()?;
        let mut done = 0;
        while done < message.len() {
            match self.bytes.read(&mut message[done..]) {
                Ok(0) if done == 0 => return Ok(false),
                Ok(0) => return Err(Error::PeerLeft),
                Ok(count) => done += count,
                Err(error) => self.again(error, "read")?,
            }
        }
        Ok(true)
    }

    /// Says that nothing more comes.
    pub fn end(&self) -> Result<()> {
        self.bytes.end().map_err(fails("end"))
    }

    /// Whether to try again.
    fn again(&mut self, error: io::Error, doing: &'static str) -> Result<()> {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                self.idle = self.idle.wrapping_add(1);
                if self.idle.is_multiple_of(self.interval) { interrupt::check() } else { Ok(()) }
            }
            ErrorKind::Interrupted => interrupt::check(),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Err(Error::PeerLeft),
            _ => Err(Error::Tcp { doing, source: error }),
        }
    }
}
