//! What a device tells `tracing` of its control path, with the feature of that name: devices, queue
//! pairs, connections. The data path tells nothing. No lock of the engine's is held meanwhile.

#![cfg_attr(not(feature = "tracing"), allow(unused_variables, clippy::missing_const_for_fn))]

use crate::device::Device;
use crate::error::Error;
use crate::spec::DeviceSpec;
use core::net::{IpAddr, SocketAddr};
use datapath::engine::{AsyncEvent, ModifyError};
use datapath::qp::attr::{QpAttr, QpAttrMask};
use datapath::qp::state::QpType;
use rdma_cm::{CommId, Event};
use std::io;
use std::path::Path;

/// An event of one of our targets.
macro_rules! tell {
    ($level:ident, $target:literal, $($rest:tt)+) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: concat!("srnic::", $target), $($rest)+)
    };
}

/// Opening a device, or one for each of its engines; what lies within is of its span.
pub fn open<T>(
    spec: &DeviceSpec,
    open: impl FnOnce() -> Result<T, Error>,
    devices: fn(&T) -> &[Device],
) -> Result<T, Error> {
    #[cfg(feature = "tracing")]
    let _within =
        tracing::info_span!(target: "srnic::device", "open", port = spec.transport.scheme()).entered();
    let opened = open();
    match &opened {
        Ok(opened) => {
            for device in devices(opened) {
                tell!(info, "device", ip = %device.ip(), driver = ?device.driver(), "opened");
            }
        }
        Err(error) => {
            tell!(error, "device", %error, "not opened");
        }
    }
    opened
}

/// The file of a device's frames lacks some.
pub fn unrecorded(path: &Path, error: &io::Error) {
    tell!(error, "device", path = %path.display(), %error, "capture incomplete");
}

/// The last object made from a device is gone.
pub fn closed(ip: IpAddr) {
    tell!(info, "device", %ip, "closed");
}

/// Something happened outside any request, and the program takes note.
pub fn noted(ip: IpAddr, event: AsyncEvent) {
    tell!(warn, "device", %ip, ?event, "event");
}

/// A queue pair is there, in RESET.
pub fn created(qpn: u32, qp_type: QpType) {
    tell!(debug, "qp", qpn, %qp_type, "created");
}

/// A queue pair was modified, or could not be.
pub fn modified(qpn: u32, attr: &QpAttr, mask: QpAttrMask, result: &Result<(), ModifyError>) {
    match result {
        Ok(()) if mask.contains(QpAttrMask::STATE) => {
            let dest_qpn = mask.contains(QpAttrMask::DEST_QPN).then_some(attr.dest_qpn);
            tell!(debug, "qp", qpn, state = %attr.state, dest_qpn, "modified");
        }
        Ok(()) => {
            tell!(debug, "qp", qpn, ?mask, "modified");
        }
        // Asked again until the neighbor has answered.
        Err(error) if error.is_resolving() => {}
        Err(error) => {
            tell!(warn, "qp", qpn, %error, "not modified");
        }
    }
}

/// A queue pair was destroyed.
pub fn destroyed(qpn: u32) {
    tell!(debug, "qp", qpn, "destroyed");
}

/// A connection is asked for.
pub fn connecting(id: CommId, qpn: u32, to: SocketAddr) {
    tell!(info, "cm", %id, qpn, %to, "connecting");
}

/// A peer is granted what it asked for.
pub fn accepted(id: CommId, qpn: u32, peer: SocketAddr) {
    tell!(info, "cm", %id, qpn, %peer, "accepted");
}

/// Something happened to a connection.
pub fn connection(event: &Event) {
    match event {
        Event::Requested { id, port } => {
            tell!(info, "cm", %id, port, "requested");
        }
        Event::Replied { id, agreed, .. } => {
            tell!(info, "cm", %id, remote_qpn = agreed.remote_qpn, mode = ?agreed.wire_mode, "granted");
        }
        Event::Established { id } => {
            tell!(info, "cm", %id, "established");
        }
        Event::Failed { id, failure } => {
            tell!(warn, "cm", %id, ?failure, "failed");
        }
        Event::Disconnected { id } => {
            tell!(info, "cm", %id, "disconnected");
        }
        Event::Asked { id, port } => {
            tell!(info, "cm", %id, port, "asked for a service of datagrams");
        }
        Event::Found { id, service, .. } => {
            tell!(info, "cm", %id, remote_qpn = service.qpn, "found a service of datagrams");
        }
    }
}
