//! Waiting for a link, which takes two: a person whose other end is missing must learn what is waited for.

use crate::error::{Error, Result};
use crate::pump::{Drive, wait_for};
use std::time::{Duration, Instant};
use verbs_api::{Device, DeviceSpec, Transport};

/// After so long it is said.
const HINT: Duration = Duration::from_secs(3);

/// Drives a device, which `spec` names, until its link is up. Says on standard error what it waits for if that takes long. `peer`
/// fails when the peer has.
///
/// # Errors
/// [`Error::NoLink`], and those of [`wait_for`] and `peer`.
pub fn wait_for_link(device: &Device, spec: &DeviceSpec, mut peer: impl FnMut() -> Result<()>) -> Result<()> {
    wait_for_port(device, spec, || peer().map(|()| device.link_up()), || device.link_error())
}

/// The same of a port whose link is `up` or not; `error` says why it is not, if the port knows.
///
/// # Errors
/// As [`wait_for_link`], and those of `up`.
pub(crate) fn wait_for_port(
    engine: &impl Drive,
    spec: &DeviceSpec,
    mut up: impl FnMut() -> Result<bool>,
    error: impl Fn() -> Option<String>,
) -> Result<()> {
    let (start, mut told) = (Instant::now(), false);
    let why = || {
        error().map_or_else(
            || hint(&spec.transport).to_owned(),
            |reason| format!("the last peer that came was turned away, or left: {reason}"),
        )
    };
    let waited = wait_for(engine, "the link did not come up", || {
        if !told && start.elapsed() > HINT {
            told = true;
            eprintln!("waiting for the link of {}; {}", name_of(&spec.transport), why());
        }
        Ok(up()?.then_some(()))
    });
    waited.map_err(|error| match error {
        Error::Late(_, seconds) => Error::NoLink { device: name_of(&spec.transport), seconds, why: why() },
        error => error,
    })
}

/// Scheme and name, as in the device string.
fn name_of(transport: &Transport) -> String {
    let name = match transport {
        Transport::Memif { path, .. } | Transport::Vhost { path } | Transport::Virtio { path } => {
            path.display().to_string()
        }
        Transport::AfPacket { interface: name }
        | Transport::AfXdp { interface: name }
        | Transport::Sim { segment: name }
        | Transport::Pci { address: name } => name.clone(),
        _ => String::new(),
    };
    format!("{}:{name}", transport.scheme())
}

/// What a person can look at whose link does not come up.
const fn hint(transport: &Transport) -> &'static str {
    match transport {
        Transport::Memif { .. } => {
            "is the other end started, does it name the same socket, and is one the server and one the client?"
        }
        Transport::Vhost { .. } | Transport::Virtio { .. } => {
            "is the other end started, does it name the same socket, and is one vhost: and one virtio:?"
        }
        _ => "is the interface up, and is there somebody at the other end of its cable?",
    }
}
