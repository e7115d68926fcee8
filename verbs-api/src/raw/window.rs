//! Memory windows whose binding the caller posts itself.

use crate::device::Device;
use crate::error::Error;
use crate::memory::ProtectionDomain;
use datapath::memory::{MemoryKey, RegisterError, WindowType};

/// A memory window (`ibv_mw`); made by [`ProtectionDomain::alloc_raw_window`]. A
/// [`WorkRequest`](super::WorkRequest) with a [`Binding`](super::Binding) binds it, and a region
/// that it is bound to is not deregistered before the window is gone or bound elsewhere.
pub struct RawWindow {
    device: Device,
    first_key: MemoryKey,
}

impl ProtectionDomain {
    /// A window that shows nothing yet.
    ///
    /// # Errors
    /// [`Error::Register`] if all entries of the device's table are in use.
    pub fn alloc_raw_window(&self, kind: WindowType) -> Result<RawWindow, Error> {
        let allocated =
            self.device().nic_of(self.id())?.core_mut().memory_mut().allocate_window(self.id(), kind);
        let first_key = allocated.map_err(RegisterError::Full)?;
        Ok(RawWindow { device: self.device().clone(), first_key })
    }
}

impl RawWindow {
    /// The key before the first binding.
    #[must_use]
    pub const fn first_key(&self) -> u32 {
        self.first_key.0
    }
}

impl Drop for RawWindow {
    fn drop(&mut self) {
        if let Some(mut nic) = self.device.nic() {
            nic.core_mut().memory_mut().deallocate_window(self.first_key);
        }
    }
}
