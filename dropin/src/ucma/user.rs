//! The program's memory, by addresses that it wrote to the descriptor: a kernel tells of one that
//! is none, and does not crash.

use crate::abi::ucm::{Plain, bytes_of, from_bytes};
use crate::errno::{Errno, Result};
use core::ffi::c_void;
use core::ptr::with_exposed_provenance_mut;

/// `len` bytes from an address on.
pub fn read(address: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    copy(Way::In, address, bytes.as_mut_ptr().cast(), len)?;
    Ok(bytes)
}

/// The value at an address.
pub fn get<T: Plain>(address: u64) -> Result<T> {
    Ok(from_bytes(&read(address, size_of::<T>())?))
}

/// Writes the first `len` bytes of a value to an address.
pub fn put<T: Plain>(address: u64, value: &T, len: usize) -> Result<()> {
    let bytes = bytes_of(value);
    let len = len.min(bytes.len());
    copy(Way::Out, address, bytes.as_ptr().cast_mut().cast(), len)
}

#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

/// The kernel copies between two places of this process: EFAULT, if one is none.
fn copy(way: Way, address: u64, ours: *mut c_void, len: usize) -> Result<()> {
    let theirs = usize::try_from(address).map_err(|_| Errno(libc::EFAULT))?;
    let theirs = with_exposed_provenance_mut::<c_void>(theirs);
    if theirs.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let [local, remote] = [ours, theirs].map(|iov_base| libc::iovec { iov_base, iov_len: len });
    // SAFETY: ours has `len` bytes; theirs the kernel checks.
    let copied = unsafe {
        let call = match way {
            Way::In => libc::process_vm_readv,
            Way::Out => libc::process_vm_writev,
        };
        call(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    match usize::try_from(copied) {
        Ok(copied) if copied == len => Ok(()),
        Ok(_) => Err(Errno(libc::EFAULT)),
        Err(_) => match Errno::last() {
            // A container that forbids the call: the program's addresses are believed, as by every
            // library.
            Errno(libc::EPERM | libc::ENOSYS) => {
                believe(way, theirs, ours, len);
                Ok(())
            }
            errno => Err(errno),
        },
    }
}

fn believe(way: Way, theirs: *mut c_void, ours: *mut c_void, len: usize) {
    let (from, to) = match way {
        Way::In => (theirs, ours),
        Way::Out => (ours, theirs),
    };
    // SAFETY: the program's contract with the C library whose call this is.
    unsafe { to.cast::<u8>().copy_from(from.cast(), len) };
}
