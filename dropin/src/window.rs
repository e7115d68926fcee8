//! Memory windows.

use crate::abi::{self, MwBind, MwBindInfo};
use crate::argument::{Argument, In};
use crate::errno::{Errno, Result};
use crate::memory::{Mr, Pd, PdState, access_of};
use crate::object::{Object, Shell, Taken};
use crate::qp::Qp;
use crate::request::wr_flags;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use verbs_api::raw::{Binding, RawWindow, SendOpcode, WorkRequest};
use verbs_api::{Access, SendData, Sge, WindowType};

/// A memory window.
#[repr(C)]
pub struct Mw {
    c: Shell<abi::Mw>,
    /// The key that the last binding which was posted gives it.
    key: AtomicU32,
    _window: RawWindow,
    _pd: Arc<PdState>,
}

// SAFETY: the structure is its first field.
unsafe impl Object for Mw {
    type C = abi::Mw;
}

impl Mw {
    pub fn key(&self) -> u32 {
        self.key.load(Ordering::Relaxed)
    }

    /// A binding that gives it `key` was posted.
    pub fn set_key(&self, key: u32) {
        self.key.store(key, Ordering::Relaxed);
    }
}

/// What a window is to show.
///
/// # Safety
/// The region is NULL, or the program has it.
pub unsafe fn binding(info: &MwBindInfo, new_key: u32) -> Result<Binding> {
    // SAFETY: the caller's promise.
    let region = unsafe { <Option<&Mr>>::from_c(info.mr)? };
    let length = u32::try_from(info.length).map_err(|_| Errno::INVALID)?;
    let range = Sge { addr: info.addr, length, lkey: region.map_or(0, Mr::lkey) };
    // As with NICs: a window is for peers, and what its own side may do goes by the region.
    let access = access_of(info.mw_access_flags).difference(Access::LOCAL_WRITE);
    Ok(Binding { range, access, new_key })
}

calls! {
    fn alloc_mw(pd: &Pd, kind: u32) -> *mut abi::Mw = pointer {
        let window_type = match kind {
            1 => WindowType::One,
            2 => WindowType::Two,
            _ => return Err(Errno::INVALID),
        };
        let window = pd.domain().alloc_raw_window(window_type)?;
        let rkey = window.first_key();
        let c = abi::Mw { context: pd.context(), pd: pd.address(), rkey, handle: rkey, kind };
        let mw = Mw { c: Shell::new(c), key: AtomicU32::new(rkey), _window: window, _pd: Arc::clone(pd.state()) };
        Ok(mw.give())
    }

    fn bind_mw(qp: &Qp, mw: &Mw, bind: In<MwBind>) -> c_int = code {
        let bind = bind.get();
        let key = mw.key();
        let [low, ..] = key.to_le_bytes();
        let new_key = key & !0xFF | u32::from(low.wrapping_add(1).max(1));
        // SAFETY: the program's contract.
        let binding = unsafe { binding(&bind.bind_info, new_key)? };
        let request = WorkRequest {
            wr_id: bind.wr_id,
            opcode: SendOpcode::BindWindow,
            flags: wr_flags(bind.send_flags, qp.signals_all()),
            imm: 0,
            remote_addr: 0,
            rkey: key,
            data: SendData::Bind(&binding),
        };
        qp.pair().send().post(&request)?;
        mw.set_key(new_key);
        // SAFETY: the program does not use the structure while it is bound.
        unsafe { (*mw.c.get()).rkey = new_key };
        Ok(())
    }

    fn dealloc_mw(mw: Taken<Mw>) -> c_int = code {
        mw.destroy();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::null_mut;

    #[test]
    fn what_its_own_side_may_do_is_no_matter_of_a_window() {
        let flags = (Access::LOCAL_WRITE | Access::REMOTE_WRITE).bits();
        let info = MwBindInfo { mr: null_mut(), addr: 4096, length: 8, mw_access_flags: flags.into() };
        // SAFETY: the region is NULL.
        let binding = unsafe { binding(&info, 7) }.expect("a binding");
        assert_eq!((binding.access, binding.new_key), (Access::REMOTE_WRITE, 7));
    }
}
