//! The pcap stream: a header, then records. Little-endian, nanoseconds, Ethernet.

use super::TapStats;
use crate::time::Time;
use std::io::{self, Write};

/// Marks little-endian pcap with nanosecond stamps.
const MAGIC: u32 = 0xA1B2_3C4D;
const VERSION: (u16, u16) = (2, 4);
const LINKTYPE_ETHERNET: u32 = 1;
/// Bytes before each frame: seconds, nanoseconds, bytes recorded, bytes on the wire.
const RECORD_HEADER: usize = 16;
/// Frames up to this length are written in one call, from a buffer made at the start.
const SNAPLEN_MIN: usize = 65_535;

/// Writes records, and after the first error none, since a torn record makes all behind it
/// unreadable.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    writer: W,
    record: Vec<u8>,
    snaplen: usize,
    stats: TapStats,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the header of a stream for frames of usually at most `max_frame` bytes.
    pub fn new(writer: W, max_frame: usize) -> Self {
        let snaplen = max_frame.max(SNAPLEN_MIN);
        let mut header = Vec::with_capacity(24);
        header.extend(MAGIC.to_le_bytes());
        header.extend(VERSION.0.to_le_bytes());
        header.extend(VERSION.1.to_le_bytes());
        header.extend([0; 8]);
        header.extend(u32::try_from(snaplen).unwrap_or(u32::MAX).to_le_bytes());
        header.extend(LINKTYPE_ETHERNET.to_le_bytes());
        let record = Vec::with_capacity(RECORD_HEADER + snaplen);
        let mut pcap = Self { writer, record, snaplen, stats: TapStats::default() };
        let written = pcap.writer.write_all(&header);
        pcap.count(&written);
        pcap
    }

    /// Appends one frame, cut off at the snapshot length.
    pub fn record(&mut self, now: Time, frame: &[u8]) {
        if self.stats.write_errors != 0 {
            self.stats.unrecorded += 1;
            return;
        }
        let kept = &frame[..frame.len().min(self.snaplen)];
        let words = [now.0 / 1_000_000_000, now.0 % 1_000_000_000, kept.len() as u64, frame.len() as u64];
        self.record.clear();
        for word in words {
            self.record.extend(u32::try_from(word).unwrap_or(u32::MAX).to_le_bytes());
        }
        self.record.extend_from_slice(kept);
        let written = self.writer.write_all(&self.record);
        self.count(&written);
        match written {
            Ok(()) => self.stats.recorded += 1,
            Err(_) => self.stats.unrecorded += 1,
        }
    }

    /// Flushes the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        let flushed = self.writer.flush();
        self.count(&flushed);
        flushed
    }

    /// The counters of what was written.
    pub const fn stats(&self) -> TapStats {
        self.stats
    }

    /// The writer.
    pub fn into_writer(self) -> W {
        self.writer
    }

    fn count(&mut self, result: &io::Result<()>) {
        self.stats.write_errors += u64::from(result.is_err());
    }
}
