//! A device with what a program makes of it.

#[path = "wait.rs"]
pub mod wait;

use verbs_api::{Access, Completion, CompletionQueue, Device, MemoryRegion, ProtectionDomain};

/// What a peer may write to.
pub const REMOTE: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE);

pub struct Host {
    pub device: Device,
    pub pd: ProtectionDomain,
    pub cq: CompletionQueue,
}

impl Host {
    pub fn new(device: Device) -> Self {
        let (pd, cq) = (device.alloc_pd(), device.create_cq(256).expect("a queue"));
        Self { device, pd, cq }
    }

    /// Memory that peers may write to.
    pub fn region(&self, len: usize) -> MemoryRegion {
        self.pd.register(len, REMOTE).expect("memory")
    }
}

/// The next completion of `host`, whose peer is driven meanwhile.
#[track_caller]
pub fn complete(host: &mut Host, other: &Host) -> Completion {
    wait::completion(&mut host.cq, &other.device)
}
