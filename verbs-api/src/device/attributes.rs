//! The limits of a device: the part of `ibv_query_device` that means something here.

use super::Device;
use datapath::engine::CQ_ENTRIES_MAX;
use datapath::queue::{QueueCaps, SrqCaps};
use datapath::tuning;

/// Limits of a device (`ibv_device_attr`). Each is one that a call checks; what verbs have besides,
/// such as firmware and vendor numbers, is not there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct DeviceAttr {
    /// Version of this crate.
    pub version: &'static str,
    /// A number of the device that no other has: its Ethernet address as EUI-64.
    pub node_guid: u64,
    /// Ports: 1.
    pub phys_port_cnt: u8,
    /// Queue pairs.
    pub max_qp: u32,
    /// Work requests outstanding in a queue of a queue pair.
    pub max_qp_wr: u32,
    /// Elements of a work request.
    pub max_sge: u32,
    /// Bytes of inline data.
    pub max_inline: u32,
    /// READs and atomics that a queue pair takes, or has under way.
    pub max_qp_rd_atom: u32,
    /// Packets that a queue pair has outstanding.
    pub max_window: u16,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
    /// Memory regions and windows together.
    pub max_mr: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Receives of a shared receive queue.
    pub max_srq_wr: u32,
    /// Address handles.
    pub max_ah: u32,
    /// Multicast groups that have members.
    pub max_groups: u32,
    /// Members of a multicast group.
    pub max_group_members: u32,
    /// Entries of the partition key table.
    pub max_pkeys: u16,
    /// Atomics are atomic for all threads of the host that use atomic operations on the same words
    /// (`IBV_ATOMIC_GLOB`).
    pub atomic_for_host: bool,
}

impl Device {
    /// The limits of this device (`ibv_query_device`).
    ///
    /// ```
    /// # fn main() -> Result<(), verbs_api::Error> {
    /// let device = verbs_api::Device::builder().max_qps(10).open("sim:attributes")?;
    /// assert_eq!(device.query().max_qp, 10);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn query(&self) -> DeviceAttr {
        let config = self.shared().config();
        let count = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        let [a, b, c, d, e, f] = self.mac();
        DeviceAttr {
            version: env!("CARGO_PKG_VERSION"),
            // Bit 1 says that the address is universal; an address of ours mostly is not.
            node_guid: u64::from_be_bytes([a ^ 2, b, c, 0xFF, 0xFE, d, e, f]),
            phys_port_cnt: 1,
            max_qp: config.max_qps,
            max_qp_wr: QueueCaps::WR_LIMIT,
            max_sge: QueueCaps::SGE_LIMIT,
            max_inline: QueueCaps::INLINE_LIMIT,
            max_qp_rd_atom: u8::MAX.into(),
            max_window: config.window_max,
            max_cq: count(config.max_cqs),
            max_cqe: CQ_ENTRIES_MAX,
            max_mr: count(config.max_mrs),
            max_srq: count(config.max_srqs),
            max_srq_wr: SrqCaps::WR_LIMIT,
            max_ah: config.max_ahs,
            max_groups: count(tuning::GROUPS),
            max_group_members: count(tuning::GROUP_MEMBERS),
            max_pkeys: 1,
            atomic_for_host: true,
        }
    }
}
