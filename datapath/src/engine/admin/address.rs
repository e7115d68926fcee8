//! Address handles: creating and destroying them.

use crate::address::{Address, AddressKey};
use crate::engine::{Core, CreateError};
use crate::memory::ProtectionDomainId;
use crate::qp::attr::AddressVector;
use core::net::IpAddr;
use wire::Ecn;

impl Core {
    /// Makes a handle of an address vector, for datagrams of queue pairs of `pd` (`ibv_create_ah`).
    /// The vector may name a multicast group.
    ///
    /// # Errors
    /// [`CreateError::Address`], of which
    /// [`ModifyError::ResolvingNeighbor`](crate::engine::ModifyError::ResolvingNeighbor) passes:
    /// run turns, and try again; [`CreateError::Exhausted`].
    pub fn create_ah(
        &mut self,
        pd: ProtectionDomainId,
        av: &AddressVector,
    ) -> Result<AddressKey, CreateError> {
        av.validate_for_datagrams().map_err(|error| CreateError::Address(error.into()))?;
        let template = self.template_to(av, av.flow_label, Ecn::NotEct).map_err(CreateError::Address)?;
        let loopback = av.dst_ip == self.config.ip;
        let group = Some(av.dst_ip).filter(IpAddr::is_multicast);
        let address = Address { pd, template, loopback, group, has_label: av.flow_label != 0 };
        let capacity = self.units.addresses.capacity();
        let exhausted = CreateError::Exhausted { what: "address handles", capacity };
        self.units.addresses.insert(address).ok_or(exhausted)
    }

    /// Ends a handle: datagrams that still wait to be sent by it fail. False if there is none.
    pub fn destroy_ah(&mut self, key: AddressKey) -> bool {
        self.units.addresses.remove(key)
    }
}
