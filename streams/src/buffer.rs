//! Memory of an endpoint that a program fills, and that is sent from where it lies.

use crate::endpoint::Service;
use crate::lent::{Filled, Lent};
use core::ops::{Deref, DerefMut};
use std::io;
use std::sync::Arc;

/// Bytes in registered memory, for [`Stream::write_buffer`](crate::Stream::write_buffer). It is
/// made by [`Stream::buffer`](crate::Stream::buffer), has no bytes at first, and is a slice of
/// those that were put in.
///
/// Any stream of its endpoint may write it. Dropping it gives the memory back.
pub struct Buffer {
    service: Arc<Service>,
    filled: Filled,
}

impl Buffer {
    pub(crate) fn new(service: &Arc<Service>, lent: Lent) -> Self {
        Self { service: Arc::clone(service), filled: Filled { lent: Some(lent), len: 0 } }
    }

    /// How many bytes more it can take.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.filled.lent.as_ref().map_or(0, |lent| lent.bytes().len() - self.filled.len)
    }

    /// Has `fill` put bytes into the memory behind those that are there, all of
    /// [`remaining`](Self::remaining). `fill` returns how many it has put in; the rest of the
    /// memory keeps what it finds there, and that is not sent.
    ///
    /// ```
    /// # use srnic_streams::{Config, Endpoint};
    /// # use std::io::{self, Read};
    /// # use std::time::Duration;
    /// # fn main() -> io::Result<()> {
    /// # let server = Endpoint::open("sim:buffers", Config::default())?;
    /// # let listener = server.listen(7471)?;
    /// # let addr = listener.local_addr();
    /// # let reads = std::thread::spawn(move || -> io::Result<Vec<u8>> {
    /// #     Ok(listener.accept()?.read_buffer()?.to_vec())
    /// # });
    /// # let client = Endpoint::open("sim:buffers", Config::default())?;
    /// # let stream = client.connect(addr, Duration::from_secs(60))?;
    /// # let mut file = &b"bytes of a file"[..];
    /// let mut buffer = stream.buffer(1 << 20)?;
    /// buffer.fill_with(|space| file.read(space))?;
    /// stream.write_buffer(&mut buffer)?;
    /// # assert_eq!(reads.join().expect("no panic")?, b"bytes of a file");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What `fill` fails with; nothing was put in then.
    pub fn fill_with<E>(&mut self, fill: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<usize, E> {
        let space = self.filled.space();
        let most = space.len();
        let len = fill(space)?.min(most);
        self.filled.len += len;
        Ok(len)
    }

    /// What is to be written.
    ///
    /// # Errors
    /// It is not of this endpoint.
    pub(crate) fn filled(&mut self, service: &Arc<Service>) -> io::Result<&mut Filled> {
        if Arc::ptr_eq(service, &self.service) {
            return Ok(&mut self.filled);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the buffer is of another endpoint; take one of the stream that writes it",
        ))
    }

    pub(crate) fn give_back(&mut self) {
        let chunk = core::mem::take(&mut self.filled).lent.map(|lent| lent.chunk());
        if let Some(chunk) = chunk {
            self.service.call(|state| state.give(chunk));
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.filled.bytes()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.filled.bytes_mut()
    }
}

/// Appends bytes, as many as there is memory for.
impl io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.fill_with(|space| {
            let len = bytes.len().min(space.len());
            space[..len].copy_from_slice(&bytes[..len]);
            Ok(len)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
