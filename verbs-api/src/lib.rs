//! RDMA verbs in Rust, over any Ethernet: open a [`Device`], register memory, connect queue pairs, poll completions.
//!
//! | verbs | here |
//! |---|---|
//! | `ibv_open_device` | [`Device::open`], by a string such as `memif:/run/srnic.sock,role=client` ([`DeviceSpec`]) |
//! | `ibv_alloc_pd`, `ibv_reg_mr` | [`Device::alloc_pd`], [`ProtectionDomain::register`] and its siblings |
//! | `ibv_create_cq`, `ibv_poll_cq` | [`Device::create_cq`], [`CompletionQueue::poll`] |
//! | `ibv_create_qp`, `ibv_modify_qp` | [`ProtectionDomain::queue_pair`], then [`PreparedQueuePair::connect`] |
//! | `ibv_post_send`, `ibv_post_recv` | [`QueuePair::post_send`], [`QueuePair::post_recv`] |
//! | `ibv_create_srq`, `ibv_post_srq_recv` | [`ProtectionDomain::create_srq`], [`SharedReceiveQueue::post_recv`] |
//! | `ibv_modify_srq`, `ibv_query_srq` | [`SharedReceiveQueue::arm_limit`], [`SharedReceiveQueue::query`] |
//!
//! # Who runs the engine
//! By default whoever polls a completion queue or calls [`Device::progress`]; there is no other thread. A passive side,
//! such as the target of WRITEs, must call one of them as well: what it does not take in, its peer sends again. With
//! [`Driver::Thread`] the device has a thread that does this, and calls only touch rings.
//!
//! # Why posting is safe
//! A [`MemoryRegion`] owns its bytes, and the engine keeps them alive for as long as they are registered. Work
//! requests name ranges of keys, not pointers; a key whose region is gone is refused. Peers may write at any time, so
//! nothing hands out a Rust reference to registered bytes: access goes through copies and atomic loads.

mod completion;
mod device;
mod driver;
mod endpoint;
mod error;
mod memory;
mod nic;
#[cfg(feature = "dpdk")]
mod open;
mod queue_pair;
mod shared;
mod shared_receive;
mod spec;
mod work_request;

pub use completion::CompletionQueue;
pub use datapath::counters::Counters;
pub use datapath::engine::{AsyncEvent, EngineConfig, EngineMemory, SrqAttr, Turn};
pub use datapath::memory::{Access, Backing};
pub use datapath::port::fault::FaultStats;
pub use datapath::port::options::{Keys, OptionError};
pub use datapath::port::{Port, PortStats};
pub use datapath::qp::attr::{CongestionAlgorithm, CongestionTuning, LossResponse, RecoveryPolicy};
pub use datapath::qp::state::QpState;
pub use datapath::queue::{
    Completion, PostError, QueueCaps, RecvRequest, SendData, Sge, SrqCaps, WcFlags, WcOpcode, WcStatus,
};
pub use datapath::sched::{SchedAttributes, SchedulerConfig};
pub use device::{Device, DeviceBuilder};
pub use driver::{Driver, SlowPath};
pub use endpoint::{Endpoint, EndpointError};
pub use error::Error;
pub use memory::{FileBacking, MemoryRegion, ProtectionDomain, RemoteRegion, RemoteRegionError};
pub use queue_pair::{PreparedQueuePair, QueuePair, QueuePairBuilder, SendBatch};
pub use shared_receive::SharedReceiveQueue;
pub use spec::{DeviceSpec, Hugepages, Role, SpecError, Transport};
pub use wire::Pmtu;
pub use work_request::{RemoteAddr, SendRequest};
