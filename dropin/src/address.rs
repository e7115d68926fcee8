//! Addresses of peers.

use crate::abi::{self, AhAttr, Grh, Wc};
use crate::argument::{In, Out};
use crate::context::Context;
use crate::errno::{Errno, Result};
use crate::memory::{Pd, PdState};
use crate::object::{Object, Shell, Taken};
use core::ffi::{c_int, c_void};
use core::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use verbs_api::{AddressHandle, AddressVector, WcFlags};

/// What hardware takes a hop limit of 0 for.
const HOP_LIMIT_DEFAULT: u8 = 64;
const FLOW_LABEL_BITS: u32 = 0xF_FFFF;

/// An address handle.
#[repr(C)]
pub struct Ah {
    c: Shell<abi::Ah>,
    handle: AddressHandle,
    pd: Arc<PdState>,
}

// SAFETY: the structure is its first field.
unsafe impl Object for Ah {
    type C = abi::Ah;
}

impl Ah {
    pub const fn handle(&self) -> &AddressHandle {
        &self.handle
    }
}

/// The address of a GID, as RoCEv2 has them.
pub fn ip_of(gid: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(gid).to_canonical()
}

/// The GID of an address.
pub fn gid_of(ip: IpAddr) -> abi::Gid {
    let bytes = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    abi::Gid { bytes }
}

/// Where `attr` says that packets go.
pub fn vector_of(device: &verbs_api::Device, attr: &AhAttr) -> Result<AddressVector> {
    if attr.is_global == 0 {
        eprintln!(
            "srnic: a peer is named by its LID alone, and a port of RoCE has none: let the program take GID 0 \
             (-g 0, with perftest -x 0)"
        );
        return Err(Errno::INVALID);
    }
    if attr.port_num > 1 || attr.grh.sgid_index != 0 {
        return Err(Errno::INVALID);
    }
    let grh = attr.grh;
    Ok(AddressVector {
        src_ip: device.ip(),
        dst_ip: ip_of(grh.dgid.bytes),
        dst_mac: None,
        dscp: grh.traffic_class >> 2,
        hop_limit: if grh.hop_limit == 0 { HOP_LIMIT_DEFAULT } else { grh.hop_limit },
        flow_label: grh.flow_label & FLOW_LABEL_BITS,
    })
}

/// The other way round.
pub fn attr_of(vector: &AddressVector) -> AhAttr {
    let mut attr = NOWHERE;
    attr.grh = abi::GlobalRoute {
        dgid: gid_of(vector.dst_ip),
        flow_label: vector.flow_label,
        sgid_index: 0,
        hop_limit: vector.hop_limit,
        traffic_class: vector.dscp << 2,
    };
    (attr.is_global, attr.port_num) = (1, 1);
    attr
}

/// An attribute that says nothing.
pub const NOWHERE: AhAttr = AhAttr {
    grh: abi::GlobalRoute {
        dgid: abi::Gid { bytes: [0; 16] },
        flow_label: 0,
        sgid_index: 0,
        hop_limit: 0,
        traffic_class: 0,
    },
    dlid: 0,
    sl: 0,
    src_path_bits: 0,
    static_rate: 0,
    is_global: 0,
    port_num: 0,
};

fn create(pd: &Pd, attr: &AhAttr) -> Result<*mut abi::Ah> {
    let engine = &pd.state().context.engine;
    let vector = vector_of(&engine.device, attr)?;
    let handle =
        pd.domain().create_ah(&vector).map_err(|error| engine.explain_way("ibv_create_ah", error))?;
    let c = abi::Ah { context: pd.context(), pd: pd.address(), handle: 0 };
    Ok(Ah { c: Shell::new(c), handle, pd: Arc::clone(pd.state()) }.give())
}

/// Where the sender of a datagram is, by its completion and what lies in front of it.
fn back_to_sender(wc: &Wc, grh: Option<In<Grh>>, port: u8) -> Result<AhAttr> {
    if wc.wc_flags & u32::from(WcFlags::GRH.bits()) == 0 {
        return Err(Errno::INVALID);
    }
    let area = grh.ok_or(Errno::INVALID)?.get();
    let from = verbs_api::Grh::parse(&area.bytes).ok_or(Errno::INVALID)?;
    let mut attr = attr_of(&AddressVector { dst_ip: from.src, ..AddressVector::default() });
    attr.port_num = port;
    Ok(attr)
}

exports! {
    fn ibv_create_ah(pd: &Pd, attr: In<AhAttr>) -> *mut abi::Ah = pointer {
        create(pd, &attr.get())
    }

    fn ibv_destroy_ah(ah: Taken<Ah>) -> c_int = both {
        // A NIC copies the address while a datagram is posted: programs need not wait until that is
        // sent.
        ah.get().pd.send_datagrams();
        ah.destroy();
        Ok(())
    }

    fn ibv_init_ah_from_wc(_context: &Context, port: u8, wc: In<Wc>, grh: Option<In<Grh>>, attr: Out<AhAttr>) -> c_int = count {
        attr.set(back_to_sender(&wc.get(), grh, port)?);
        Ok(0)
    }

    fn ibv_create_ah_from_wc(pd: &Pd, wc: In<Wc>, grh: Option<In<Grh>>, port: u8) -> *mut abi::Ah = pointer {
        create(pd, &back_to_sender(&wc.get(), grh, port)?)
    }

    fn ibv_resolve_eth_l2_from_gid(_context: &Context, _attr: In<AhAttr>, _mac: *mut c_void, _vlan: *mut c_void) -> c_int = count {
        // The engine does so by itself.
        Err(Errno::NOT_SUPPORTED)
    }
}
