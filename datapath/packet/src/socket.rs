//! What is asked of the kernel for a packet socket: the calls, each in one place.

use libc::{c_int, c_void, sock_filter, socklen_t};
use memmap2::{MmapOptions, MmapRaw};
use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// A packet socket. It receives nothing until it is bound to an interface and a protocol.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// A new one of this type, of no protocol, whose calls never wait.
    pub(crate) fn open(kind: c_int) -> io::Result<Self> {
        let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: just made, and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Lets frames for an Ethernet address through the filter of an interface, or (with
    /// `PACKET_MR_PROMISC`) for every one, for as long as the socket is open.
    pub(crate) fn join(&self, index: c_int, kind: c_int, address: [u8; 6]) -> io::Result<()> {
        let mut mr_address = [0; 8];
        mr_address[..6].copy_from_slice(&address);
        let mr_type = kind.try_into().unwrap_or_default();
        let wish = libc::packet_mreq { mr_ifindex: index, mr_type, mr_alen: 6, mr_address };
        self.set(libc::PACKET_ADD_MEMBERSHIP, &wish)
    }

    /// Sets an option of packet sockets that takes a number.
    pub(crate) fn set_number(&self, option: c_int, number: c_int) -> io::Result<()> {
        self.set(option, &number)
    }

    /// Makes a ring of `blocks` blocks of `block` bytes, each with slots of `slot` bytes.
    pub(crate) fn make_ring(&self, option: c_int, ring: &libc::tpacket_req) -> io::Result<()> {
        self.set(option, ring)
    }

    /// Leaves out frames that a program refuses.
    pub(crate) fn attach(&self, program: &mut [sock_filter]) -> io::Result<()> {
        let len = program.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
        // SAFETY: the option takes a sock_fprog, which names as many instructions as there are; the
        // kernel copies them.
        unsafe { self.set_raw(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program) }
    }

    /// Asks for room for as many bytes of frames on their way out. The system's limit may be less.
    pub(crate) fn set_send_room(&self, bytes: c_int) -> io::Result<()> {
        // SAFETY: the option takes an int.
        unsafe { self.set_raw(libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes) }
    }

    /// From now on frames of this protocol come, and any go, by the interface with this number.
    pub(crate) fn bind(&self, index: c_int, protocol: c_int) -> io::Result<()> {
        // SAFETY: all-zero is a valid address.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET.try_into().unwrap_or_default();
        address.sll_protocol = u16::try_from(protocol).unwrap_or_default().to_be();
        address.sll_ifindex = index;
        let at = (&raw const address).cast();
        // SAFETY: a sockaddr_ll of that length.
        check(unsafe { libc::bind(self.0.as_raw_fd(), at, len_of::<libc::sockaddr_ll>()) }).map(drop)
    }

    /// The memory of its ring, `len` bytes.
    pub(crate) fn map(&self, len: usize) -> io::Result<MmapRaw> {
        MmapOptions::new().len(len).populate().map_raw(&self.0)
    }

    /// Frames that found the ring full since the last call.
    pub(crate) fn take_drops(&self) -> u64 {
        let mut counted = MaybeUninit::<libc::tpacket_stats>::uninit();
        let mut len = len_of::<libc::tpacket_stats>();
        let (fd, at) = (self.0.as_raw_fd(), counted.as_mut_ptr().cast::<c_void>());
        // SAFETY: the option fills in a tpacket_stats, for which there is room.
        let read =
            unsafe { libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, at, &raw mut len) };
        // SAFETY: the call filled it in.
        if read == 0 { u64::from(unsafe { counted.assume_init() }.tp_drops) } else { 0 }
    }

    /// Sends what is in its ring, as far as there is room; how many bytes. Never waits.
    ///
    /// # Errors
    /// What the kernel says of the first frame that it did not take, if there is more to say than
    /// that there was no room behind others.
    #[inline]
    pub(crate) fn send(&self) -> io::Result<usize> {
        let (fd, nothing) = (self.0.as_raw_fd(), std::ptr::null());
        // SAFETY: neither data nor an address, so nothing is read.
        let sent = unsafe { libc::sendto(fd, nothing, 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn set<T>(&self, option: c_int, value: &T) -> io::Result<()> {
        // SAFETY: the callers give each option of packet sockets the type that it takes.
        unsafe { self.set_raw(libc::SOL_PACKET, option, value) }
    }

    /// # Safety
    /// The option takes a `T`.
    unsafe fn set_raw<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let (fd, value) = (self.0.as_raw_fd(), std::ptr::from_ref(value).cast());
        // SAFETY: the option takes a `T`, whose length this is.
        check(unsafe { libc::setsockopt(fd, level, option, value, len_of::<T>()) }).map(drop)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "no option is that long")]
const fn len_of<T>() -> socklen_t {
    size_of::<T>() as socklen_t
}

/// -1 is an error whose number is in `errno`.
pub(crate) fn check(ret: c_int) -> io::Result<c_int> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}
