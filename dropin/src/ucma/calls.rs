//! What the preload calls (dropin/preload): the descriptor's own calls.

use super::{command, table};
use crate::errno::Errno;
use crate::export::{Step, negative, waiting};
use core::cell::Cell;
use core::ffi::{c_int, c_void};

exports! {
    // 1 if the inode is that of a descriptor of `/dev/infiniband/rdma_cm`.
    fn srnic_cm_has(inode: u64) -> c_int = value {
        Ok(table::channel(inode).is_ok().into())
    }

    // A descriptor was closed, here or in another process.
    fn srnic_cm_closed() -> c_int = negative {
        table::sweep();
        Ok(0)
    }
}

/// A command is written to a descriptor: 0, or minus the errno. If another thread closes it while
/// the call waits, only a signal ends the call: so a kernel would have it, whose call has begun.
///
/// # Safety
/// As of `write`: there are `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn srnic_cm_write(
    fd: c_int,
    inode: u64,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    let address = bytes.expose_provenance() as u64;
    let waits = Cell::new(false);
    negative(waiting(&|| match command::run(fd, inode, address, len) {
        // There is no event yet.
        Err(Errno::AGAIN) => {
            waits.set(true);
            table::channel(inode).map_or(Ok(Step::Signal), |channel| channel.until_event(fd))
        }
        Err(_) if waits.get() && table::channel(inode).is_err() => Ok(Step::Signal),
        done => done.map(|()| Step::Done(0)),
    }))
}
