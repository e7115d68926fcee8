//! RDMA verbs in Rust, over any Ethernet: open a [`Device`], register memory, connect queue pairs,
//! poll completions.
//!
//! Who is new to RDMA begins with the [`guide`]: devices, SEND, connecting by address, WRITE, a log
//! by WRITE, loss, and what makes a program fast. The table is for those who know verbs.
//!
//! | verbs | here |
//! |---|---|
//! | `ibv_open_device` | [`Device::open`], by a string such as `memif:/run/srnic.sock,role=client` ([`DeviceSpec`]) |
//! | `ibv_alloc_pd`, `ibv_reg_mr` | [`Device::alloc_pd`], [`ProtectionDomain::register`] and its siblings |
//! | `ibv_create_cq`, `ibv_poll_cq` | [`Device::create_cq`], [`CompletionQueue::poll`] |
//! | `ibv_create_qp` | [`ProtectionDomain::queue_pair`], then [`PreparedQueuePair::connect`] |
//! | `ibv_modify_qp`, `ibv_query_qp` | [`QueuePair::modify`], [`QueuePair::query`]; from RESET on: [`ManualQueuePair`] |
//! | `ibv_query_device` | [`Device::query`] |
//! | `ibv_rereg_mr` | [`MemoryRegion::change_access`], [`MemoryRegion::change_domain`], [`MemoryRegion::change_backing`] |
//! | `ibv_query_port`, `ibv_query_gid`, `ibv_query_pkey` | [`Device::query_port`], [`Device::query_gid`], [`Device::query_pkey`] |
//! | `ibv_post_send`, `ibv_post_recv` | [`QueuePair::post_send`], [`QueuePair::post_recv`]; lists: [`QueuePair::batch`], [`QueuePair::recv_batch`], [`QueuePair::post_recv_batch`] |
//! | `ibv_create_comp_channel`, `ibv_req_notify_cq`, `ibv_get_cq_event` | [`Device::create_channel`], [`CompletionQueue::arm`], [`CompletionChannel`] |
//! | `ibv_get_async_event`, `async_fd` | [`Device::poll_event`], [`Device::wait_event`], [`Device::event_fd`] |
//! | `ibv_wc_status_str` | [`WcStatus`] shown as text: what happened, and what to do |
//! | `ibv_create_ah`, `IBV_QPT_UD` | [`ProtectionDomain::create_ah`], [`ProtectionDomain::ud_queue_pair`], [`UdQueuePair::post_send`] |
//! | `ibv_attach_mcast`, `ibv_detach_mcast` | [`UdQueuePair::join_group`], [`UdQueuePair::leave_group`], [`Datagram::to_group`] |
//! | `ibv_alloc_mw`, `ibv_bind_mw` | [`ProtectionDomain::alloc_window`], [`MemoryWindow::bind`] |
//! | `ibv_create_srq`, `ibv_post_srq_recv` | [`ProtectionDomain::create_srq`], [`SharedReceiveQueue::post_recv`] |
//! | `ibv_modify_srq`, `ibv_query_srq` | [`SharedReceiveQueue::arm_limit`], [`SharedReceiveQueue::query`] |
//! | `rdma_resolve_addr`, `rdma_resolve_route`, `rdma_connect` | [`PreparedQueuePair::connect_to`], or [`Connector::connect`] and [`Connecting`] |
//! | `rdma_bind_addr`, `rdma_listen`, `rdma_get_request` | [`Listener::bind`], [`Listener::get_request`] |
//! | `rdma_accept`, `rdma_reject` | [`ConnectionRequest::accept`], [`ConnectionRequest::reject`] |
//! | `rdma_disconnect`, `RDMA_CM_EVENT_DISCONNECTED` | [`QueuePair::disconnect`], [`QueuePair::is_disconnected`] |
//!
//! # A program, whole
//! Two devices of this process on a segment of their own; in real programs they are two processes,
//! each with a string that names its port, and the endpoints travel over whatever the two share.
//!
//! ```
//! use verbs_api::{Access, Device, Driver, SendData, SendRequest, WcStatus};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let here = Device::open("sim:program")?;
//! let there = Device::builder().driver(Driver::THREAD).open("sim:program")?;
//!
//! // The passive side: memory that its peer may write to.
//! let (its_pd, its_cq) = (there.alloc_pd(), there.create_cq(16)?);
//! let memory = its_pd.register(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
//! let its_pair = its_pd.queue_pair(&its_cq, &its_cq).build()?;
//!
//! // The active side.
//! let (pd, mut cq) = (here.alloc_pd(), here.create_cq(16)?);
//! let pair = pd.queue_pair(&cq, &cq).build()?;
//!
//! let (endpoint, its_endpoint) = (pair.endpoint(), its_pair.endpoint());
//! let mut pair = pair.connect(&its_endpoint)?;
//! let _its_pair = its_pair.connect(&endpoint)?;
//!
//! pair.post_send(&SendRequest::write(SendData::Inline(b"hello"), memory.remote().at(0)).signaled())?;
//! let done = loop {
//!     if let Some(completion) = cq.poll() {
//!         break completion;
//!     }
//! };
//! assert_eq!(done.status, WcStatus::Success);
//! let mut received = [0; 5];
//! memory.read(0, &mut received)?;
//! assert_eq!(&received, b"hello");
//! # Ok(()) }
//! ```
//!
//! # Who runs the engine
//! By default whoever polls a completion queue or calls [`Device::progress`]; there is no other
//! thread. A passive side, such as the target of WRITEs, must call one of them as well: what it
//! does not take in, its peer sends again. With [`Driver::Thread`] the device has a thread that
//! does this, and calls only touch rings. With [`Driver::Hybrid`] the thread does it while nobody
//! polls. One engine is one core: [`Device::open_engines`] opens
//! several on one port.
//!
//! A device works in the process that opened it. In a child that this one forks, calls fail with
//! [`Error::Forked`] or do nothing, and what is dropped there the parent keeps; the child may open
//! devices of its own.
//!
//! # Why posting is safe
//! A [`MemoryRegion`] owns its bytes, and the engine keeps them alive for as long as they are
//! registered. Work requests name ranges of keys, not pointers; a key whose region is gone is
//! refused. Peers may write at any time, so nothing hands out a Rust reference to registered bytes:
//! access goes through copies and atomic loads.

mod address;
#[cfg(feature = "async")]
mod asynchronous;
mod bell;
mod biased_lock;
mod clock;
mod cm;
mod completion;
mod device;
mod driver;
mod endpoint;
mod error;
mod events;
mod memory;
mod native_memif;
mod native_packet;
mod nic;
#[cfg(feature = "dpdk")]
mod open;
mod pool;
mod port;
mod process;
mod queue_pair;
pub mod raw;
mod shared;
mod shared_receive;
mod sim;
mod spec;
mod stat;
mod tenant;
mod trace;
mod wake_deadline;
mod wakers;
mod work_request;

pub use address::{AddressHandle, Grh};
#[cfg(feature = "async")]
pub use asynchronous::{AsyncQueuePair, Buffer, BufferPool, Completions, Done, Operation, Receives};
pub use cm::{
    Connecting, ConnectionError, ConnectionRequest, ConnectionStats, Connector, Listener, Obstacle,
};
pub use completion::{CompletionChannel, CompletionQueue};
pub use datapath::counters::{Counters, QpCounters};
pub use datapath::engine::{
    AckTiming, AsyncEvent, ConfigError, CreateError, EngineConfig, EngineMemory, GroupError, LatencyReport,
    LimitTimes, ModifyError, QpLimit, QpReport, SrqAttr, TenantReport, Turn, Usage,
};
pub use datapath::latency::{
    Key, LatencyConfig, Operations, Part, Parts, QUANTILES, Quantiles, Sample, Slow, SlowOperations,
};
pub use datapath::memory::{Access, Backing, RegisterError, WindowType};
pub use datapath::port::fault::FaultStats;
pub use datapath::port::options::{Keys, OptionError};
pub use datapath::port::{FilterError, LinkDown, Port, PortStats};
pub use datapath::qp::attr::{
    AddressVector, CongestionAlgorithm, CongestionTuning, LossResponse, QpAttr, QpAttrMask, RecoveryPolicy,
    WriteOrder,
};
pub use datapath::qp::state::{QpState, QpType};
pub use datapath::qpn::{EngineId, MULTICAST_QPN};
pub use datapath::queue::{
    Completion, PostError, QueueCaps, RecvRequest, SendData, Sge, SrqCaps, WcFlags, WcOpcode, WcStatus,
};
pub use datapath::sched::{
    CostTable, HostRateConfig, HostReport, SchedAttributes, SchedulerConfig, TENANT_WEIGHT_MAX, TENANTS_MAX,
    TenantAttr, TenantCaps, TenantClass, TenantCounters, TenantId, TenantQuota,
};
pub use datapath::seed::Seed;
pub use datapath::time::Time;
#[cfg(feature = "async")]
pub use device::LinkUp;
pub use device::{Device, DeviceAttr, DeviceBuilder, Drained, Owed};
pub use driver::{Backoff, Driver, Idle, SlowPath};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{BatchError, Error};
pub use memory::{
    FileBacking, HugeBacking, HugepagePolicy, MemoryRegion, MemoryWindow, ProtectionDomain, RemoteRegion,
    RemoteRegionError,
};
pub use native_memif::open_memif;
pub use native_packet::open_packet;
#[cfg(feature = "dpdk")]
pub use open::open_port;
pub use port::{Gid, PortAttr};
pub use queue_pair::{
    ManualQueuePair, PreparedQueuePair, QueuePair, QueuePairBuilder, RecvBatch, SendBatch, UdQueuePair,
    UdQueuePairBuilder,
};
pub use rdma_cm::{CmError, Dialect, Disagreement, Stats as CmStats};
pub use shared_receive::SharedReceiveQueue;
pub use spec::{DeviceSpec, Hugepages, PortDriver, Role, SpecError, Transport};
pub use stat::{Metric, MetricKind, MetricSource, StatAddress};
pub use tenant::Tenant;
pub use wire::cm::RejReason;
pub use wire::{Pmtu, WireMode};
pub use work_request::{Datagram, RemoteAddr, SendRequest};

/// A guide for readers who have written network programs and never used RDMA. Its links lead to
/// documents of the repository. Its programs run as tests.
#[cfg(doc)]
#[doc = include_str!("../guide.md")]
pub mod guide {}
