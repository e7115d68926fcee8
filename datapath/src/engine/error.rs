//! Why the control path refused something; nothing has changed then.

use crate::port::{FilterError, Mac};
use crate::qp::attr::AttrError;
use crate::qp::transition::TransitionError;
use crate::qp_state::{QpState, QpType};
use crate::queue::ResizeError;
use ::memif::FRAME_OVERHEAD;
use core::net::IpAddr;

/// Why an object was not created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// All objects of this kind are in use.
    #[error("all {capacity} {what} of the device are in use; destroy some or open the device with more")]
    Exhausted {
        /// Plural name of the objects.
        what: &'static str,
        /// How many there are.
        capacity: usize,
    },
    /// A size is out of range.
    #[error("{what} is {given}; it must be between {min} and {max}")]
    OutOfRange {
        /// Which size.
        what: &'static str,
        /// What was asked for.
        given: u32,
        /// Least value.
        min: u32,
        /// Largest value.
        max: u32,
    },
    /// No such completion queue.
    #[error("completion queue {0} does not exist on this device")]
    UnknownCq(u32),
    /// No such shared receive queue.
    #[error("shared receive queue {0} does not exist on this device")]
    UnknownSrq(u32),
    /// No such tenant.
    #[error("tenant {0} does not exist on this device")]
    UnknownTenant(u16),
    /// The default tenant has attributes of its own only beside others.
    #[error("this device has no tenants yet: create one, then change the default tenant")]
    NoTenants,
    /// The default tenant has no quotas.
    #[error("the default tenant has no quotas: create a tenant, and make of it what is to be limited")]
    DefaultQuota,
    /// The tenant may have no more.
    #[error("the tenant's quota of {quota} {what} is used up: destroy some, or raise it")]
    Quota {
        /// Plural name of the objects.
        what: &'static str,
        /// How many there may be.
        quota: u32,
    },
    /// Tenants need queue pairs that take turns.
    #[error("tenants share a device whose scheduler is round robin; open it without another scheduler")]
    OtherScheduler,
    /// A cap that is too low for a turn to be paid in time.
    #[error("{what} is {given}; it must be 0, for no cap, or at least {min}")]
    CapTooLow {
        /// Which cap.
        what: &'static str,
        /// What was asked for.
        given: u64,
        /// Least value.
        min: u64,
    },
    /// The tenant makes more calls that create, register or change something than it may.
    #[error("the tenant's cap of {per_s} control calls a second is used up: wait {wait_ns} ns, or raise it")]
    ControlRate {
        /// The cap.
        per_s: u32,
        /// Nanoseconds until the next one may begin.
        wait_ns: u64,
    },
    /// A completion queue holds more than its new size.
    #[error(transparent)]
    Resize(#[from] ResizeError),
    /// An address vector that names no host that can be reached.
    #[error(transparent)]
    Address(ModifyError),
    /// The feature is not there yet.
    #[error("{0} is not supported yet")]
    Unsupported(&'static str),
}

/// Why a queue pair was not modified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModifyError {
    /// No such queue pair.
    #[error("queue pair {0:#08x} does not exist on this device")]
    UnknownQp(u32),
    /// The transition, or its attribute mask.
    #[error(transparent)]
    Transition(#[from] TransitionError),
    /// An attribute's value.
    #[error(transparent)]
    Attribute(#[from] AttrError),
    /// `cur_state` is not the state.
    #[error("cur_state says {given}, but the queue pair is in {actual}")]
    WrongCurrentState {
        /// What the caller believed.
        given: QpState,
        /// What is.
        actual: QpState,
    },
    /// No such shared receive queue.
    #[error("shared receive queue {0} does not exist on this device")]
    UnknownSrq(u32),
    /// The limit can never be reached.
    #[error(
        "a limit of {given} receives; the shared receive queue holds {max_wr}, and the limit is that at most"
    )]
    SrqLimit {
        /// Asked for.
        given: u32,
        /// Receives that the queue holds.
        max_wr: u32,
    },
    /// The path MTU does not fit the port.
    #[error(
        "path MTU {pmtu} needs mtu={}, and the port has {}: open the device with that mtu=, or give the queue pair a smaller path MTU",
        needed.saturating_sub(FRAME_OVERHEAD.into()),
        max_frame.saturating_sub(FRAME_OVERHEAD.into())
    )]
    PathMtu {
        /// Asked for, in bytes.
        pmtu: u32,
        /// Longest frame it can need.
        needed: usize,
        /// Longest frame of the port.
        max_frame: usize,
    },
    /// Plain RoCEv2 lacks this path MTU (protocol.md 2.3).
    #[error("plain RoCEv2 has no path MTU of {pmtu}: give the queue pair {plain}, or the SRNIC dialect")]
    PathMtuOfSrnic {
        /// Asked for, in bytes.
        pmtu: u32,
        /// The next smaller one that it has, in bytes.
        plain: u32,
    },
    /// The source address is not the device's.
    #[error("source address {given} is not the device's own, {own}")]
    SourceAddress {
        /// What the address vector says.
        given: IpAddr,
        /// The device's address.
        own: IpAddr,
    },
    /// The peer's Ethernet address is not known yet; it is being asked for: run turns, and try
    /// again.
    #[error("the Ethernet address of {0} is being resolved; poll the device and try again")]
    ResolvingNeighbor(IpAddr),
    /// No room to look for the peer's Ethernet address: as many as can be are being looked for.
    /// Each of those ends within three seconds: run turns, and try again.
    #[error(
        "the Ethernet address of {0} cannot be asked for yet: the device is looking for as many hosts as it can; poll it and try again"
    )]
    NeighborsBusy(IpAddr),
    /// The peer does not answer.
    #[error("no host answers for {0}; is it up, and on the same network?")]
    Unreachable(IpAddr),
    /// The device's own address is another host's.
    #[error("{ip} is the address of another host, too, the one with the Ethernet address {}: give one of them another ip=", Mac(*mac))]
    AddressTaken {
        /// The device's address.
        ip: IpAddr,
        /// Ethernet address of the other host.
        mac: [u8; 6],
    },
    /// READs and atomics are under way that the old value counts for.
    #[error(
        "{0} cannot change while READs or atomics are under way: wait until they are done, and try again"
    )]
    UnderWay(&'static str),
    /// The feature is not there yet.
    #[error("{0} is not supported yet")]
    Unsupported(&'static str),
}

/// Why a queue pair did not join a multicast group, or leave it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// No such queue pair.
    #[error("queue pair {0:#08x} does not exist on this device")]
    UnknownQp(u32),
    /// Groups have queue pairs of type UD.
    #[error("a queue pair of type {0} is no member of multicast groups; make one of type UD")]
    Service(QpType),
    /// The address is one host's.
    #[error("{0} is no multicast address; those are 224.0.0.0/4 and ff00::/8")]
    NotAGroup(IpAddr),
    /// The group is IPv4 and the device IPv6, or the other way round.
    #[error("the group {group} is of another family than the device's address, {own}")]
    OtherFamily {
        /// The group.
        group: IpAddr,
        /// The device's address.
        own: IpAddr,
    },
    /// There can be no more.
    #[error("there are {capacity} {what}, which is all there can be; leave some")]
    Full {
        /// Plural name of what there is.
        what: &'static str,
        /// How many there are.
        capacity: usize,
    },
    /// It is no member.
    #[error("the queue pair is no member of {0}")]
    NotMember(IpAddr),
    /// The port does not let the group's frames through.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

impl CreateError {
    /// Whether the value of `what` is within its limits.
    pub(super) fn check(what: &'static str, given: u32, min: u32, max: u32) -> Result<(), Self> {
        let fits = (min..=max).contains(&given);
        if fits { Ok(()) } else { Err(Self::OutOfRange { what, given, min, max }) }
    }
}

impl ModifyError {
    /// Whether it passes while the device runs: the peer's Ethernet address is asked for, or will
    /// be.
    #[must_use]
    pub const fn is_resolving(&self) -> bool {
        matches!(self, Self::ResolvingNeighbor(_) | Self::NeighborsBusy(_))
    }
}
