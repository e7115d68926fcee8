//! Messages that may carry a descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// memif's messages have 128 bytes.
const LEN_MAX: usize = 256;
/// Room for one descriptor beside the message, 8-byte aligned as the kernel wants it.
const CONTROL_WORDS: usize = 4;
#[expect(clippy::cast_possible_truncation, reason = "a constant, 4")]
const ONE_DESCRIPTOR: u32 = size_of::<RawFd>() as u32;

/// What came in one piece.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: [u8; LEN_MAX],
    len: usize,
    descriptor: Option<OwnedFd>,
}

#[cfg(test)]
impl Message {
    /// A message of at most 256 bytes.
    pub(crate) fn new(bytes: &[u8], descriptor: Option<OwnedFd>) -> Self {
        let mut message = Self { bytes: [0; LEN_MAX], len: bytes.len(), descriptor };
        message.bytes[..bytes.len()].copy_from_slice(bytes);
        message
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// What it carries.
    pub(crate) fn descriptor(&self) -> Option<&OwnedFd> {
        self.descriptor.as_ref()
    }
}

impl Message {
    /// memif's number for what kind of message it is.
    pub(crate) fn kind(&self) -> Option<u16> {
        self.bytes[..self.len].first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
    }

    /// Which queue a ring is of, in the message that says where a ring is: behind the kind and flags, two bytes each.
    pub(crate) fn ring_index(&self) -> Option<u16> {
        let field = self.bytes[..self.len].get(4..)?;
        field.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
    }

    /// Changes the number of the interface that an INIT asks for: behind the kind and a version, two bytes each.
    pub(crate) fn set_interface(&mut self, id: u32) {
        if let Some(field) = self.bytes[..self.len].get_mut(4..8) {
            field.copy_from_slice(&id.to_ne_bytes());
        }
    }

    /// The name in a CONNECT: 32 bytes behind the kind, up to the first zero.
    pub(crate) fn interface_name(&self) -> Option<&[u8]> {
        let field = self.bytes[..self.len].get(2..34)?;
        field.split(|byte| *byte == 0).next()
    }
}

/// The next message at `socket`, or `None` if there is none yet.
///
/// # Errors
/// When the other end is closed, and for a message that does not fit: it is none of memif's.
pub(crate) fn receive(socket: &OwnedFd) -> io::Result<Option<Message>> {
    let mut message = Message { bytes: [0; LEN_MAX], len: 0, descriptor: None };
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: message.bytes.as_mut_ptr().cast(), iov_len: LEN_MAX };
    let mut header = header(&mut part, &mut control);
    // SAFETY: the header points at one writable part and at writable room for control data.
    let len = unsafe {
        libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC)
    };
    message.descriptor = descriptor(&header);
    match usize::try_from(len) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 => {
            Err(io::ErrorKind::InvalidData.into())
        }
        Ok(len) => {
            message.len = len;
            Ok(Some(message))
        }
        Err(_) => match io::Error::last_os_error() {
            error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(None)
            }
            error => Err(error),
        },
    }
}

/// Sends `message` on.
///
/// # Errors
/// When the other end is closed or does not read.
pub(crate) fn send(socket: &OwnedFd, message: &Message) -> io::Result<()> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: message.bytes.as_ptr().cast_mut().cast(), iov_len: message.len };
    let mut header = header(&mut part, &mut control);
    if let Some(descriptor) = &message.descriptor {
        // SAFETY: `control` is aligned and has room for the header and one descriptor, both of which are written.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(ONE_DESCRIPTOR) as usize;
            let entry = libc::CMSG_FIRSTHDR(&raw const header);
            (*entry).cmsg_level = libc::SOL_SOCKET;
            (*entry).cmsg_type = libc::SCM_RIGHTS;
            (*entry).cmsg_len = libc::CMSG_LEN(ONE_DESCRIPTOR) as usize;
            libc::CMSG_DATA(entry).cast::<RawFd>().write_unaligned(descriptor.as_raw_fd());
        }
    } else {
        header.msg_controllen = 0;
    }
    // SAFETY: the header points at one part and at control data, both initialised; the kernel only reads them.
    let sent = unsafe {
        libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A header over one part and the room for control data; it must not outlive either.
fn header(part: &mut libc::iovec, control: &mut [u64; CONTROL_WORDS]) -> libc::msghdr {
    // SAFETY: all-zero is a valid header.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(control);
    header
}

/// The descriptor that the kernel put beside a message.
fn descriptor(header: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: the kernel filled in the control data and its length; a descriptor in it is new and ours.
    unsafe {
        let mut entry = libc::CMSG_FIRSTHDR(header);
        let mut found = None;
        while !entry.is_null() {
            if (*entry).cmsg_level == libc::SOL_SOCKET && (*entry).cmsg_type == libc::SCM_RIGHTS {
                let count = ((*entry).cmsg_len - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
                let first = libc::CMSG_DATA(entry).cast::<RawFd>();
                // memif sends one; any other is closed again.
                for index in 0..count {
                    found = Some(OwnedFd::from_raw_fd(first.add(index).read_unaligned()));
                }
            }
            entry = libc::CMSG_NXTHDR(header, entry);
        }
        found
    }
}
