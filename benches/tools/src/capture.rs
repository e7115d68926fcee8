//! Captures: what `srnic pcap` reads, and what it says of them.

mod census;
mod classic;
pub mod explain;
mod ng;
mod sift;
#[cfg(test)]
mod tests;

pub use census::Census;
pub use explain::Explain;

/// A frame of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// What was captured of it, from the Ethernet header on.
    pub bytes: &'a [u8],
    /// Its length on the wire, in bytes.
    pub len: u32,
    /// When it was captured, in nanoseconds of the capture's clock; `None` if the file has none.
    pub at_ns: Option<u64>,
}

/// Why a file is not a capture that can be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CaptureError {
    /// Neither pcap nor pcapng.
    #[error("this is neither a pcap nor a pcapng file")]
    Format,
    /// Not Ethernet.
    #[error("the frames are of link type {0}; only Ethernet, 1, can be read")]
    LinkType(u32),
    /// The file ends in the middle, or its lengths contradict each other.
    #[error("the file is broken behind byte {at}: {reason}")]
    Broken {
        /// Where the last whole record ended.
        at: usize,
        /// What is wrong there.
        reason: &'static str,
    },
}

/// Calls `each` for every frame of a pcap or pcapng file, in order.
///
/// # Errors
/// [`CaptureError`]; the frames before the fault were seen.
pub fn for_each<'a>(file: &'a [u8], mut each: impl FnMut(Frame<'a>)) -> Result<(), CaptureError> {
    if ng::is_ng(file) { ng::read(file, &mut each) } else { classic::read(file, &mut each) }
}

/// Numbers in the byte order of whoever wrote the file.
#[derive(Clone, Copy)]
struct Words {
    swapped: bool,
}

impl Words {
    fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let word = u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
        Some(if self.swapped { word.swap_bytes() } else { word })
    }

    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
        Some(if self.swapped { word.swap_bytes() } else { word })
    }
}

/// `len` bytes of `file` from `at` on.
fn slice(file: &[u8], at: usize, len: u32) -> Option<&[u8]> {
    let end = at.checked_add(usize::try_from(len).ok()?)?;
    file.get(at..end)
}

const NS_PER_S: u64 = 1_000_000_000;
/// The link type of Ethernet frames.
const ETHERNET: u32 = 1;
