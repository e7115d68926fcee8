//! Address handles: where datagrams go. And what a datagram's receive says of where it came from.

use crate::device::Device;
use crate::error::Error;
use crate::memory::ProtectionDomain;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use datapath::address::AddressKey;
use datapath::engine::{CreateError, ModifyError};
use datapath::qp::attr::AddressVector;
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// How long a call waits for its turn while the device looks for as many hosts as it can. This is
/// longer than each of those searches takes.
const NEIGHBORS_BUSY_MAX: Duration = Duration::from_secs(5);

/// Repeats `attempt`, and runs the engine meanwhile, until the host's Ethernet address that it
/// needs is known or given up.
pub(crate) fn resolved<T>(device: &Device, attempt: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let busy_until = Instant::now() + NEIGHBORS_BUSY_MAX;
    loop {
        let result = attempt();
        match &result {
            // Ends as known or unreachable: the engine counts its questions.
            Err(
                Error::Connect(ModifyError::ResolvingNeighbor(_))
                | Error::Create(CreateError::Address(ModifyError::ResolvingNeighbor(_))),
            ) => {}
            Err(
                Error::Connect(ModifyError::NeighborsBusy(_))
                | Error::Create(CreateError::Address(ModifyError::NeighborsBusy(_))),
            ) if Instant::now() < busy_until => {}
            _ => return result,
        }
        device.progress();
        yield_now();
    }
}

/// The handle of a host, or of a multicast group, that datagrams go to (`ibv_ah`); made by
/// [`ProtectionDomain::create_ah_to`].
///
/// Keep it until what was sent by it has completed: a request that finds its handle gone fails with
/// `LocQpOpErr`, and takes its queue pair to SQE.
pub struct AddressHandle {
    domain: ProtectionDomain,
    key: AddressKey,
    av: AddressVector,
}

impl fmt::Debug for AddressHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressHandle").field("key", &self.key).field("av", &self.av).finish_non_exhaustive()
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        if let Some(mut nic) = self.domain.device().nic() {
            nic.core_mut().destroy_ah(self.key);
        }
    }
}

impl ProtectionDomain {
    /// A handle of a host, for datagrams of this domain's queue pairs. Runs the engine until the
    /// host's Ethernet address is known. Or of a multicast group ([`Datagram::to_group`]), whose
    /// Ethernet address follows from its own.
    ///
    /// [`Datagram::to_group`]: crate::Datagram::to_group
    ///
    /// # Errors
    /// As [`ProtectionDomain::create_ah`].
    pub fn create_ah_to(&self, host: IpAddr) -> Result<AddressHandle, Error> {
        let src_ip = self.device().ip();
        self.create_ah(&AddressVector { src_ip, dst_ip: host, ..AddressVector::default() })
    }

    /// A handle for datagrams to the host, or the multicast group, that an address vector names
    /// (`ibv_create_ah`). The vector also has the code point, the hop limit and the flow label.
    ///
    /// # Errors
    /// [`Error::Create`]: the address vector makes no sense, nobody answers for the address, or
    /// there are too many handles.
    pub fn create_ah(&self, av: &AddressVector) -> Result<AddressHandle, Error> {
        drop(self.device().nic_of(self.id())?);
        let key =
            resolved(self.device(), || Ok(self.device().own_nic()?.core_mut().create_ah(self.id(), av)?))?;
        Ok(AddressHandle { domain: self.clone(), key, av: *av })
    }
}

impl AddressHandle {
    /// The address vector that this handle was made of.
    #[must_use]
    pub const fn address_vector(&self) -> &AddressVector {
        &self.av
    }

    /// Whether it names a multicast group.
    pub(crate) const fn is_group(&self) -> bool {
        self.av.dst_ip.is_multicast()
    }

    pub(crate) const fn key(&self) -> AddressKey {
        self.key
    }

    pub(crate) const fn device(&self) -> &Device {
        self.domain.device()
    }
}

/// The 40 bytes that a datagram's receive begins with: the IP header that it came by.
///
/// ```
/// use verbs_api::Grh;
///
/// let mut area = [0; Grh::LEN];
/// area[20] = 0x45;
/// area[32..36].copy_from_slice(&[10, 77, 0, 1]);
/// area[36..].copy_from_slice(&[10, 77, 0, 2]);
/// let from = Grh::parse(&area).map(|grh| grh.src.to_string());
/// assert_eq!(from.as_deref(), Some("10.77.0.1"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Grh {
    /// The sender.
    pub src: IpAddr,
    /// Whom it was sent to.
    pub dst: IpAddr,
}

impl Grh {
    /// Bytes of the area.
    pub const LEN: usize = 40;

    /// Reads the area: an IPv6 header, or, behind 20 bytes of nothing, an IPv4 one. `None` if it is
    /// neither.
    #[must_use]
    pub fn parse(area: &[u8; Self::LEN]) -> Option<Self> {
        if area[0] >> 4 == 6 {
            let address = |at| IpAddr::V6(Ipv6Addr::from(octets::<16>(area, at)));
            return Some(Self { src: address(8), dst: address(24) });
        }
        let address = |at| IpAddr::V4(Ipv4Addr::from(octets::<4>(area, at)));
        (area[20] >> 4 == 4).then(|| Self { src: address(32), dst: address(36) })
    }
}

fn octets<const N: usize>(area: &[u8; Grh::LEN], at: usize) -> [u8; N] {
    core::array::from_fn(|index| area[at + index])
}
