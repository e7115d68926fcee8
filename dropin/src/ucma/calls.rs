//! What the preload calls (dropin/preload): the descriptor's own calls.

use super::{command, table};
use crate::errno::Errno;
use crate::export::Step;
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

waiting_exports! {
    // A command is written to a descriptor: 0, or minus the errno.
    fn srnic_cm_write(fd: c_int, inode: u64, bytes: *const c_void, len: usize) -> c_int = negative {
        match command::run(fd, inode, bytes.expose_provenance() as u64, len) {
            // There is no event yet.
            Err(Errno::AGAIN) => table::channel(inode)?.until_event(fd),
            done => done.map(|()| Step::Done(0)),
        }
    }
}
