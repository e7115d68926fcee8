//! What a verbs library in C needs, and a safe program does not: memory that the caller owns, queue
//! pairs that several threads use at once, work requests with all their fields, connections by
//! their numbers, and devices by the names that its programs know.
//!
//! The rest of the API stays usable beside it: completion queues, shared receive queues and address
//! handles are those of [`Device`] and
//! [`ProtectionDomain`](crate::ProtectionDomain).
//!
//! ```
//! use core::ptr::NonNull;
//! use verbs_api::raw::{SendFlags, SendOpcode, WorkRequest};
//! use verbs_api::{Access, Device, QpType, SendData};
//!
//! # fn main() -> Result<(), verbs_api::Error> {
//! let device = Device::open("sim:raw")?;
//! let (pd, cq) = (device.alloc_pd(), device.create_cq(16)?);
//! let pair = pd.queue_pair(&cq, &cq).create_raw(QpType::Rc)?;
//! let memory = Box::leak(Box::new([0_u64; 512]));
//! let start = NonNull::from(memory).cast();
//! // SAFETY: the memory is never freed, and nobody else uses it.
//! let region = unsafe { pd.register_raw(start, 4096, 0, Access::LOCAL_WRITE)? };
//! let request = WorkRequest {
//!     wr_id: 1,
//!     opcode: SendOpcode::Send,
//!     flags: SendFlags::SIGNALED,
//!     imm: 0,
//!     remote_addr: 0,
//!     rkey: 0,
//!     data: SendData::Gather(&[]),
//! };
//! // In RESET nothing can be posted.
//! assert!(pair.send().post(&request).is_err());
//! region.deregister().map_err(|(_, error)| error)
//! # }
//! ```

mod memory;
mod named;
mod queue_pair;
mod window;

pub use crate::cm::{ConnectionSink, Connections};
pub use datapath::memory::Binding;
pub use datapath::queue::{DatagramAddress, SendFlags, SendOpcode, SendRequest as WorkRequest};
pub use memory::RawRegion;
pub use named::{NamedDevice, NamedDeviceError};
pub use queue_pair::{QueuePair, RecvGuard, SendGuard};
pub use rdma_cm::{Agreed, CommId, Event, Failure, Options, Question, Request, Service, Terms};
pub use window::RawWindow;

use crate::address::AddressHandle;
use crate::device::Device;
use crate::error::Error;
use datapath::qp::attr::{QpAttr, QpAttrMask};
use datapath::qp::state::QpState;

/// Takes a queue pair of the device to ERR, by its number: what is outstanding is flushed.
///
/// # Errors
/// [`Error::Connect`] if there is none of that number; [`Error::Forked`].
pub fn fail(device: &Device, qpn: u32) -> Result<(), Error> {
    let attr = QpAttr { state: QpState::Err, ..QpAttr::default() };
    Ok(device.own_nic()?.core_mut().modify_qp(qpn, &attr, QpAttrMask::STATE)?)
}

/// Where a datagram goes, in the form in which [`WorkRequest::remote_addr`] has it: queue pair
/// `qpn` of the host that `handle` names. The handle must be of the queue pair's device, and
/// outlive the request.
#[must_use]
pub const fn datagram_address(handle: &AddressHandle, qpn: u32) -> u64 {
    DatagramAddress { handle: handle.key(), qpn }.to_word()
}
