//! Which device an address belongs to.

use crate::device;
use crate::errno::{Errno, Result};
use crate::opened::{self, Opened};
use core::net::IpAddr;
use std::sync::Arc;

/// The devices that may have this address, open; one that is of no other process's.
fn opened(ip: IpAddr) -> impl Iterator<Item = Result<Arc<Opened>>> {
    let configs = device::configs();
    configs.filter(move |config| config.ip().is_none_or(|of| of == ip)).map(opened::open)
}

/// All devices.
pub fn all() -> Result<Vec<Arc<Opened>>> {
    let all: Vec<_> = device::configs().map(opened::open).collect::<Result<_>>()?;
    if all.is_empty() { Err(Errno(libc::ENODEV)) } else { Ok(all) }
}

/// The device with this address.
pub fn at(ip: IpAddr) -> Result<Arc<Opened>> {
    for engine in opened(ip) {
        let engine = engine?;
        if engine.device.ip() == ip {
            return Ok(engine);
        }
    }
    Err(Errno(libc::EADDRNOTAVAIL))
}

/// The device from which to reach an address: the first of the address's family.
pub fn towards(ip: IpAddr) -> Result<Arc<Opened>> {
    let mut all = all()?.into_iter();
    all.find(|engine| engine.device.ip().is_ipv4() == ip.is_ipv4()).ok_or(Errno(libc::ENETUNREACH))
}
