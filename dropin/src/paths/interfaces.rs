//! The interfaces that programs find, one for each device whose address is known.

use crate::argument::Out;
use crate::device;
use crate::opened;
use core::ffi::{c_char, c_int};
use libc::sockaddr_storage;
use std::net::IpAddr;

/// `AF_INET` and `AF_INET6`, as addresses have them.
const INET: libc::sa_family_t = 2;
const INET6: libc::sa_family_t = 10;

/// An address as C has it, with port 0.
fn socket_address(ip: IpAddr) -> sockaddr_storage {
    // SAFETY: all zeros is a value of each of these structures.
    let mut storage: sockaddr_storage = unsafe { core::mem::zeroed() };
    let place = &raw mut storage;
    match ip {
        IpAddr::V4(ip) => {
            // SAFETY: as above.
            let mut address: libc::sockaddr_in = unsafe { core::mem::zeroed() };
            address.sin_family = INET;
            address.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
            // SAFETY: any address fits into the storage.
            unsafe { place.cast::<libc::sockaddr_in>().write(address) };
        }
        IpAddr::V6(ip) => {
            // SAFETY: as above.
            let mut address: libc::sockaddr_in6 = unsafe { core::mem::zeroed() };
            address.sin6_family = INET6;
            address.sin6_addr.s6_addr = ip.octets();
            // SAFETY: as above.
            unsafe { place.cast::<libc::sockaddr_in6>().write(address) };
        }
    }
    storage
}

/// Devices are on one network with whoever answers them: 16 bits of it are the network's, as those
/// of a pool are unless it is told otherwise.
fn mask_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => [255, 255, 0, 0].into(),
        IpAddr::V6(_) => [0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0, 0, 0, 0].into(),
    }
}

exports! {
    fn srnic_interface(index: usize, name: Out<[c_char; libc::IFNAMSIZ]>, address: Out<sockaddr_storage>, mask: Out<sockaddr_storage>) -> c_int = negative {
        let configs = device::known().iter().map(device::Device::config);
        let mut with_address = configs.filter_map(|config| Some((&config.name, opened::ip_of(config)?)));
        let Some((own, ip)) = with_address.nth(index) else { return Ok(0) };
        name.set(device::chars(own));
        address.set(socket_address(ip));
        mask.set(socket_address(mask_of(ip)));
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_the_order_of_the_network() {
        let storage = socket_address([10, 77, 0, 9].into());
        // SAFETY: it was written as one.
        let address = unsafe { (&raw const storage).cast::<libc::sockaddr_in>().read() };
        assert_eq!((i32::from(address.sin_family), address.sin_port), (libc::AF_INET, 0));
        assert_eq!(address.sin_addr.s_addr.to_ne_bytes(), [10, 77, 0, 9]);
        let ip = [0xFD00, 0, 0, 0, 0, 0, 0, 1].into();
        let storage = socket_address(ip);
        // SAFETY: as above.
        let address = unsafe { (&raw const storage).cast::<libc::sockaddr_in6>().read() };
        assert_eq!(
            (i32::from(address.sin6_family), IpAddr::from(address.sin6_addr.s6_addr)),
            (libc::AF_INET6, ip)
        );
    }
}
