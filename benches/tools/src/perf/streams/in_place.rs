//! A stream whose bytes are written and read where they lie. As with `srnic write-bw`, nobody makes
//! them or looks at them.

use srnic_streams::{Buffer, Received, Stream};
use std::io;

/// A stream, and the memory of it that is in use.
pub struct InPlace {
    pub stream: Stream,
    /// Filled with so many bytes, and not written to its end yet.
    writing: Option<(Buffer, usize)>,
    /// Not read to its end.
    reading: Option<Received>,
}

impl InPlace {
    pub const fn new(stream: Stream) -> Self {
        Self { stream, writing: None, reading: None }
    }

    /// Writes at most `len` bytes. What a call that failed was to write, the next one writes.
    pub fn write(&mut self, len: usize) -> io::Result<usize> {
        let (buffer, filled) = match &mut self.writing {
            Some(writing) => writing,
            none => {
                let mut buffer = self.stream.buffer(len)?;
                let filled = buffer.fill_with(|space| io::Result::Ok(len.min(space.len())))?;
                none.insert((buffer, filled))
            }
        };
        let filled = *filled;
        self.stream.write_buffer(buffer)?;
        self.writing = None;
        Ok(filled)
    }

    /// Reads at most `len` bytes; 0: there are no more.
    pub fn read(&mut self, len: usize) -> io::Result<usize> {
        let mut bytes = match self.reading.take() {
            Some(bytes) => bytes,
            None => self.stream.read_buffer()?,
        };
        let read = len.min(bytes.len());
        bytes.advance(read);
        self.reading = Some(bytes).filter(|bytes| !bytes.is_empty());
        Ok(read)
    }
}
