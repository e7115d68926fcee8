//! Protection domains and memory regions.

use crate::abi;
use crate::argument::{Argument as _, Handle};
use crate::context::{Context, ContextState};
use crate::errno::{Errno, Result};
use crate::object::{Object, Shell, Taken};
use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;
use verbs_api::raw::{self, RawRegion};
use verbs_api::{Access, ProtectionDomain};

/// `IBV_ACCESS_ZERO_BASED`, `IBV_ACCESS_ON_DEMAND`, `IBV_ACCESS_HUGETLB`.
const ZERO_BASED: u32 = 1 << 5;
const ON_DEMAND: u32 = 1 << 6;
const HUGETLB: u32 = 1 << 7;
/// Flags that a library may ignore.
const OPTIONAL: u32 = 0x3FF0_0000;

/// Why `ibv_rereg_mr` failed (`ibv_rereg_mr_err_code`).
const REREG_ERR_INPUT: c_int = -1;
const REREG_ERR_CMD: c_int = -4;
const CHANGE_TRANSLATION: c_int = 1;
const CHANGE_PD: c_int = 2;
const CHANGE_ACCESS: c_int = 4;

/// What was posted to a datagram queue pair or an unreliable connection is sent before its end, and
/// before that of an address that it names, if the port takes it within so long.
pub const SENT_WITHIN: Duration = Duration::from_millis(50);

/// A protection domain.
#[repr(C)]
pub struct Pd {
    c: Shell<abi::Pd>,
    state: Arc<PdState>,
}

// SAFETY: the structure is its first field.
unsafe impl Object for Pd {
    type C = abi::Pd;
}

/// What lives as long as anything of the domain.
pub struct PdState {
    pub domain: ProtectionDomain,
    pub context: Arc<ContextState>,
    /// Its queue pairs of datagrams.
    datagrams: Mutex<Vec<Weak<raw::QueuePair>>>,
}

impl PdState {
    /// A queue pair of datagrams is of this domain.
    pub fn note_datagrams(&self, pair: &Arc<raw::QueuePair>) {
        let mut pairs = self.datagrams.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.retain(|pair| pair.strong_count() > 0);
        pairs.push(Arc::downgrade(pair));
    }

    /// Datagrams that are posted by now are sent before this returns, if the port takes all of them
    /// within [`SENT_WITHIN`]. Who had to be given up is not waited for again.
    pub fn send_datagrams(&self) {
        let mut pairs = self.datagrams.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let start = Instant::now();
        pairs.retain(|pair| {
            let left = SENT_WITHIN.saturating_sub(start.elapsed());
            pair.upgrade().is_some_and(|pair| !pair.wait_sent(left))
        });
        if !pairs.is_empty() {
            let given_up = |pair: &Weak<_>| pairs.iter().any(|other| other.ptr_eq(pair));
            let mut all = self.datagrams.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|pair| !given_up(pair));
        }
    }
}

impl Pd {
    pub const fn state(&self) -> &Arc<PdState> {
        &self.state
    }

    pub fn domain(&self) -> &ProtectionDomain {
        &self.state.domain
    }

    /// The address of the open device, as the program knows it.
    pub fn context(&self) -> *mut abi::Context {
        // SAFETY: the program changes nothing in it.
        unsafe { (*self.c.get()).context }
    }
}

/// A memory region.
#[repr(C)]
pub struct Mr {
    c: Shell<abi::Mr>,
    inner: Mutex<Registered>,
}

struct Registered {
    region: Option<RawRegion>,
    pd: Arc<PdState>,
}

// SAFETY: the structure is its first field.
unsafe impl Object for Mr {
    type C = abi::Mr;
}

impl Mr {
    /// The key, as of the last registration.
    pub fn lkey(&self) -> u32 {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.region.as_ref().map_or(0, RawRegion::lkey)
    }
}

/// What a region or a queue pair may do, of the five flags that the engine has.
pub const fn access_of(flags: u32) -> Access {
    Access::from_bits_truncate(flags.to_le_bytes()[0])
}

fn check_access(flags: u32) -> Result<Access> {
    if flags & ON_DEMAND != 0 {
        return Err(Errno::NOT_SUPPORTED);
    }
    let known = u32::from(Access::all().bits()) | ZERO_BASED | HUGETLB | OPTIONAL;
    if flags & !known != 0 {
        return Err(Errno::INVALID);
    }
    Ok(access_of(flags))
}

fn register(pd: &Pd, addr: *mut c_void, length: usize, iova: u64, flags: u32) -> Result<*mut abi::Mr> {
    let access = check_access(flags)?;
    let iova = if flags & ZERO_BASED == 0 { iova } else { 0 };
    let start = NonNull::new(addr).ok_or(Errno::INVALID)?;
    if length == 0 {
        return Err(Errno::INVALID);
    }
    // SAFETY: the program keeps registered memory mapped, as it must for any NIC.
    let region = unsafe { pd.domain().register_raw(start.cast(), length, iova, access)? };
    let c = abi::Mr {
        context: pd.context(),
        pd: pd.address(),
        addr,
        length,
        handle: region.lkey(),
        lkey: region.lkey(),
        rkey: region.rkey(),
    };
    let inner = Registered { region: Some(region), pd: Arc::clone(pd.state()) };
    Ok(Mr { c: Shell::new(c), inner: Mutex::new(inner) }.give())
}

fn reregister(
    mr: &Mr,
    flags: c_int,
    pd: Handle<abi::Pd>,
    (addr, length): (*mut c_void, usize),
    access: c_int,
) -> core::result::Result<(), c_int> {
    if flags & !(CHANGE_TRANSLATION | CHANGE_PD | CHANGE_ACCESS) != 0 || flags == 0 {
        return Err(REREG_ERR_INPUT);
    }
    // What does not change the program may leave open.
    let pd = if flags & CHANGE_PD == 0 {
        None
    } else {
        // SAFETY: the program's contract.
        Some(unsafe { <&Pd>::from_c(pd.0) }.map_err(|_| REREG_ERR_INPUT)?)
    };
    let has_access = flags & CHANGE_ACCESS != 0;
    let access = has_access.then(|| check_access(access.cast_unsigned())).transpose();
    let access = access.map_err(|_| REREG_ERR_INPUT)?;
    let bytes = if flags & CHANGE_TRANSLATION == 0 {
        None
    } else {
        let start = NonNull::new(addr).filter(|_| length > 0).ok_or(REREG_ERR_INPUT)?;
        Some((start.cast(), length, addr.addr() as u64))
    };
    let mut inner = mr.inner.lock().unwrap_or_else(PoisonError::into_inner);
    let region = inner.region.as_mut().ok_or(REREG_ERR_CMD)?;
    // SAFETY: as in `register`.
    let changed = unsafe { region.reregister(pd.map(Pd::domain), bytes, access) };
    changed.map_err(|error| {
        Errno::from(error).set();
        REREG_ERR_INPUT
    })?;
    let key = region.lkey();
    let c = mr.c.get();
    // SAFETY: the program does not use the structure while it is changed.
    unsafe {
        ((*c).lkey, (*c).rkey) = (key, key);
        if bytes.is_some() {
            ((*c).addr, (*c).length) = (addr, length);
        }
        if let Some(pd) = pd {
            (*c).pd = pd.address();
        }
    }
    if let Some(pd) = pd {
        inner.pd = Arc::clone(pd.state());
    }
    Ok(())
}

exports! {
    fn ibv_alloc_pd(context: &Context) -> *mut abi::Pd = pointer {
        let domain = context.device().alloc_pd();
        let c = abi::Pd { context: context.address(), handle: 0 };
        let state = PdState { domain, context: Arc::clone(context.state()), datagrams: Mutex::default() };
        Ok(Pd { c: Shell::new(c), state: Arc::new(state) }.give())
    }

    fn ibv_dealloc_pd(pd: Taken<Pd>) -> c_int = both {
        if Arc::strong_count(&pd.get().state) > 1 {
            return Err(Errno::BUSY);
        }
        pd.destroy();
        Ok(())
    }

    fn ibv_reg_mr(pd: &Pd, addr: *mut c_void, length: usize, access: c_int) -> *mut abi::Mr = pointer {
        register(pd, addr, length, addr.addr() as u64, access.cast_unsigned())
    }

    fn ibv_reg_mr_iova(pd: &Pd, addr: *mut c_void, length: usize, iova: u64, access: c_int) -> *mut abi::Mr = pointer {
        register(pd, addr, length, iova, access.cast_unsigned())
    }

    fn ibv_reg_mr_iova2(pd: &Pd, addr: *mut c_void, length: usize, iova: u64, access: u32) -> *mut abi::Mr = pointer {
        register(pd, addr, length, iova, access)
    }

    fn ibv_reg_dmabuf_mr(_pd: Handle<abi::Pd>, _offset: u64, _length: usize, _iova: u64, _fd: c_int, _access: c_int) -> *mut abi::Mr = pointer {
        Err(Errno::NOT_SUPPORTED)
    }

    fn ibv_rereg_mr(mr: &Mr, flags: c_int, pd: Handle<abi::Pd>, addr: *mut c_void, length: usize, access: c_int) -> c_int = value {
        Ok(reregister(mr, flags, pd, (addr, length), access).err().unwrap_or(0))
    }

    fn ibv_dereg_mr(mr: Taken<Mr>) -> c_int = both {
        let region = mr.get().inner.lock().unwrap_or_else(PoisonError::into_inner).region.take();
        if let Some(Err((region, error))) = region.map(RawRegion::deregister) {
            mr.get().inner.lock().unwrap_or_else(PoisonError::into_inner).region = Some(region);
            return Err(error.into());
        }
        mr.destroy();
        Ok(())
    }
}
