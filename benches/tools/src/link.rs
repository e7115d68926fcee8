//! Waiting for a link, which takes two.

use crate::error::{Error, Result};
use crate::pump::{Drive, PEER_WAIT, wait_past};
use std::cell::RefCell;
use verbs_api::{Device, DeviceSpec, Transport};

/// Drives a device, which `spec` names, until its link is up. `peer` fails when the peer has.
///
/// # Errors
/// [`Error::NoLink`], [`Error::Interrupted`], and those of `peer`.
pub fn wait_for_link(device: &Device, spec: &DeviceSpec, mut peer: impl FnMut() -> Result<()>) -> Result<()> {
    wait_for_port(device, spec, || peer().map(|()| Drive::link_down(device)))
}

/// Waits for the link of a port: `down` tends its link, and says why it is down, or nothing.
///
/// # Errors
/// As [`wait_for_link`], and those of `down`.
pub(crate) fn wait_for_port(
    engine: &impl Drive,
    spec: &DeviceSpec,
    mut down: impl FnMut() -> Result<Option<String>>,
) -> Result<()> {
    let why = RefCell::new(None);
    let waited = wait_past(
        engine,
        "the link did not come up",
        Some(PEER_WAIT),
        || why.borrow().clone(),
        || {
            let now = down()?;
            let is_up = now.is_none();
            *why.borrow_mut() = now;
            Ok(is_up.then_some(()))
        },
    );
    waited.map_err(|error| match error {
        Error::Late(_, seconds) => {
            Error::NoLink { device: name_of(&spec.transport), seconds, why: why.take().unwrap_or_default() }
        }
        error => error,
    })
}

/// Scheme and name, as in the device string.
fn name_of(transport: &Transport) -> String {
    let name = match transport {
        Transport::Memif { path, .. }
        | Transport::Vhost { path }
        | Transport::Virtio { path }
        | Transport::Pool { socket: path } => path.display().to_string(),
        Transport::AfPacket { interface: name, .. }
        | Transport::AfXdp { interface: name }
        | Transport::Sim { segment: name }
        | Transport::Pci { address: name } => name.clone(),
        _ => String::new(),
    };
    format!("{}:{name}", transport.scheme())
}
