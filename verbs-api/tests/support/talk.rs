//! Two hosts that talk to each other.

#[path = "join.rs"]
mod join;
#[path = "wait.rs"]
mod wait;

use join::join;
use verbs_api::{
    Access, CompletionQueue, CongestionAlgorithm, Device, Driver, MemoryRegion, ProtectionDomain, QueuePair,
    RecvRequest, SendData, SendRequest, WcStatus,
};

pub const REMOTE: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE);

/// A device with what a program makes of it.
pub struct Host {
    pub device: Device,
    pub pd: ProtectionDomain,
    pub cq: CompletionQueue,
    pub memory: MemoryRegion,
}

pub fn host(driver: Driver, text: &str) -> Host {
    let device =
        Device::builder().driver(driver).open(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (pd, cq) = (device.alloc_pd(), device.create_cq(64).expect("a queue"));
    let memory = pd.register(4096, REMOTE).expect("memory");
    Host { device, pd, cq, memory }
}

/// A queue pair between two hosts that gives up late.
pub fn connect(one: &Host, two: &Host) -> (QueuePair, QueuePair) {
    connect_strictly(one, two, [false; 2])
}

/// A queue pair between two hosts that gives up late; `strict` says which ends ask for strict
/// placement.
pub fn connect_strictly(one: &Host, two: &Host, strict: [bool; 2]) -> (QueuePair, QueuePair) {
    let prepare = |host: &Host, strict: bool| {
        let pair = host.pd.queue_pair(&host.cq, &host.cq).congestion(CongestionAlgorithm::Fixed);
        pair.timeout(18).strict_placement(strict).build().expect("a queue pair")
    };
    join([prepare(one, strict[0]), prepare(two, strict[1])]).into()
}

/// The status of the next completion of `host`.
pub fn complete(host: &mut Host, other: &Host) -> WcStatus {
    wait::completion(&mut host.cq, &other.device).status
}

/// Sends 8 bytes and WRITEs 8 bytes, which arrive.
pub fn talk(one: &mut Host, two: &mut Host, (a, b): &mut (QueuePair, QueuePair), number: u64) {
    let scatter = [two.memory.slice(0..8).expect("inside")];
    b.post_recv(&RecvRequest { wr_id: number, scatter: &scatter }).expect("posted");
    let bytes = number.to_ne_bytes();
    let write = SendRequest::write(SendData::Inline(&bytes), two.memory.remote().at(8));
    let mut batch = a.batch();
    batch.post_send(&write).expect("room");
    batch.post_send(&SendRequest::send(SendData::Inline(&bytes)).signaled()).expect("room");
    drop(batch);
    assert_eq!(complete(two, one), WcStatus::Success);
    assert_eq!(complete(one, two), WcStatus::Success);
    assert_eq!(two.memory.load_acquire_u64(0).expect("aligned"), number);
    assert_eq!(two.memory.load_acquire_u64(8).expect("aligned"), number);
}
