//! Work requests of C, as the engine takes them.

use crate::abi::{SendWr, Sge, flag, opcode};
use crate::address::Ah;
use crate::argument::{Argument, Linked, array};
use crate::errno::{Errno, Result};
use crate::qp::Qp;
use crate::window::{Mw, binding};
use verbs_api::raw::{SendFlags, SendOpcode, WorkRequest, datagram_address};
use verbs_api::{QpType, QueueCaps, SendData};

pub const INLINE: usize = QueueCaps::INLINE_LIMIT as usize;

/// Bytes that a request brings along.
pub struct Inline {
    bytes: [u8; INLINE],
    len: usize,
}

impl Inline {
    pub const EMPTY: Self = Self { bytes: [0; INLINE], len: 0 };

    pub fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// # Safety
    /// The bytes are there.
    ///
    /// # Errors
    /// EINVAL if no queue takes as many.
    pub unsafe fn push(&mut self, start: *const u8, len: usize) -> Result<()> {
        let end = self.len.checked_add(len).ok_or(Errno::INVALID)?;
        let target = self.bytes.get_mut(self.len..end).ok_or(Errno::INVALID)?;
        // SAFETY: the caller's promise. They may be registered, so that a peer writes to them
        // meanwhile: they are copied, not looked at.
        unsafe { target.as_mut_ptr().copy_from(start, len) };
        self.len = end;
        Ok(())
    }
}

impl Linked for SendWr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

/// The engine's flags, whose values are those of verbs.
pub const fn wr_flags(flags: u32, signals_all: bool) -> SendFlags {
    let flags = if signals_all { flags | flag::SIGNALED } else { flags };
    SendFlags::from_bits_truncate(flags.to_le_bytes()[0])
}

const fn opcode_of(code: u32) -> Result<SendOpcode> {
    Ok(match code {
        opcode::WRITE => SendOpcode::Write,
        opcode::WRITE_WITH_IMM => SendOpcode::WriteWithImm,
        opcode::SEND => SendOpcode::Send,
        opcode::SEND_WITH_IMM => SendOpcode::SendWithImm,
        opcode::READ => SendOpcode::Read,
        opcode::CMP_AND_SWP => SendOpcode::CompareSwap,
        opcode::FETCH_AND_ADD => SendOpcode::FetchAdd,
        opcode::LOCAL_INV => SendOpcode::LocalInv,
        opcode::BIND_MW => SendOpcode::BindWindow,
        opcode::SEND_WITH_INV => SendOpcode::SendWithInv,
        _ => return Err(Errno::NOT_SUPPORTED),
    })
}

/// Hands a request to `post` as the engine has it.
///
/// # Safety
/// What the request names is there: its list, bytes to be sent inline, a handle, a window.
#[inline]
pub unsafe fn with_request(
    qp: &Qp,
    wr: &SendWr,
    post: impl FnOnce(&WorkRequest<'_>) -> Result<()>,
) -> Result<()> {
    let count = usize::try_from(wr.num_sge).map_err(|_| Errno::INVALID)?;
    // SAFETY: the caller's promise.
    let list = unsafe { array(wr.sg_list, count) };
    let has_bytes = !matches!(
        wr.opcode,
        opcode::CMP_AND_SWP | opcode::FETCH_AND_ADD | opcode::LOCAL_INV | opcode::BIND_MW
    );
    if wr.send_flags & flag::INLINE == 0 || !has_bytes {
        // SAFETY: the caller's promise.
        return unsafe { with_data(qp, wr, list, None, post) };
    }
    let mut inline = Inline::EMPTY;
    for sge in list {
        let start = core::ptr::with_exposed_provenance(usize::try_from(sge.addr).unwrap_or_default());
        // SAFETY: the caller's promise.
        unsafe { inline.push(start, sge.length as usize)? };
    }
    // SAFETY: as above.
    unsafe { with_data(qp, wr, list, Some(inline.get()), post) }
}

/// Hands a request to `post`, whose data are `list`, or `inline` if there are any. Operations that
/// move no bytes of a list take no notice of `inline`.
///
/// # Safety
/// What the request names is there: a handle, a window. Its own list is not looked at.
#[inline]
pub unsafe fn with_data(
    qp: &Qp,
    wr: &SendWr,
    list: &[Sge],
    inline: Option<&[u8]>,
    post: impl FnOnce(&WorkRequest<'_>) -> Result<()>,
) -> Result<()> {
    let mut request = WorkRequest {
        wr_id: wr.wr_id,
        opcode: opcode_of(wr.opcode)?,
        flags: wr_flags(wr.send_flags, qp.signals_all()),
        imm: imm_of(wr),
        remote_addr: 0,
        rkey: 0,
        data: SendData::Gather(&[]),
    };
    // SAFETY: of the union every bit pattern is a value of each field that is read.
    unsafe {
        if qp.pair().qp_type() == QpType::Ud {
            let to = wr.wr.ud;
            let ah = <&Ah>::from_c(to.ah)?;
            request.remote_addr = datagram_address(ah.handle(), to.remote_qpn);
            request.rkey = to.remote_qkey;
        } else {
            (request.remote_addr, request.rkey) = (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey);
        }
    }
    match request.opcode {
        SendOpcode::CompareSwap | SendOpcode::FetchAdd => {
            // SAFETY: as above.
            let atomic = unsafe { wr.wr.atomic };
            let &[result] = list else { return Err(Errno::INVALID) };
            request.rkey = atomic.rkey;
            let swap = if request.opcode == SendOpcode::FetchAdd { atomic.compare_add } else { atomic.swap };
            request.data = SendData::Atomic { result, compare: atomic.compare_add, swap_or_add: swap };
            post(&request)
        }
        SendOpcode::BindWindow => {
            let bind = wr.bind_mw;
            // SAFETY: the caller's promise.
            let (mw, binding) = unsafe { (<&Mw>::from_c(bind.mw)?, binding(&bind.bind_info, bind.rkey)?) };
            request.rkey = mw.key();
            post(&WorkRequest { data: SendData::Bind(&binding), ..request })?;
            mw.set_key(bind.rkey);
            Ok(())
        }
        SendOpcode::LocalInv => post(&request),
        _ => post(&WorkRequest { data: inline.map_or(SendData::Gather(list), SendData::Inline), ..request }),
    }
}

/// Immediate data in host order, or a key.
const fn imm_of(wr: &SendWr) -> u32 {
    match wr.opcode {
        opcode::LOCAL_INV | opcode::SEND_WITH_INV => wr.imm_data,
        _ => u32::from_be(wr.imm_data),
    }
}
