//! Calls that do nothing here, or that srnic has not: those fail with EOPNOTSUPP.

use crate::abi;
use crate::argument::Handle;
use crate::errno::Errno;
use core::ffi::{c_int, c_void};

/// `IBV_FORK_UNNEEDED`.
const FORK_UNNEEDED: c_int = 2;

exports! {
    fn ibv_fork_init() -> c_int = code {
        // A child has the pages that it inherits; the device belongs to its parent
        // (docs/unmodified.md).
        Ok(())
    }

    fn ibv_is_fork_initialized() -> c_int = value { Ok(FORK_UNNEEDED) }
    fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int = code { Ok(()) }
    fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int = code { Ok(()) }

    fn ibv_import_device(_fd: c_int) -> *mut abi::Context = pointer { Err(Errno::NOT_SUPPORTED) }
    fn ibv_import_pd(_context: Handle<abi::Context>, _handle: u32) -> *mut abi::Pd = pointer { Err(Errno::NOT_SUPPORTED) }
    fn ibv_unimport_pd(_pd: Handle<abi::Pd>) -> () = nothing { Ok(()) }
    fn ibv_import_mr(_pd: Handle<abi::Pd>, _handle: u32) -> *mut abi::Mr = pointer { Err(Errno::NOT_SUPPORTED) }
    fn ibv_unimport_mr(_mr: Handle<abi::Mr>) -> () = nothing { Ok(()) }
    fn ibv_import_dm(_context: Handle<abi::Context>, _handle: u32) -> *mut c_void = pointer { Err(Errno::NOT_SUPPORTED) }
    fn ibv_unimport_dm(_dm: *mut c_void) -> () = nothing { Ok(()) }
}
