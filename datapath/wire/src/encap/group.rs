//! Multicast groups on Ethernet.

use core::net::IpAddr;

/// The Ethernet address of a multicast group: RFC 1112 6.4 for IPv4, whose upper bits are lost, and
/// RFC 2464 7 for IPv6. Of an address that is no group's it means nothing.
#[must_use]
pub const fn group_mac(group: IpAddr) -> [u8; 6] {
    match group {
        IpAddr::V4(ip) => {
            let [_, a, b, c] = ip.octets();
            [0x01, 0x00, 0x5E, a & 0x7F, b, c]
        }
        IpAddr::V6(ip) => {
            let [.., a, b, c, d] = ip.octets();
            [0x33, 0x33, a, b, c, d]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_addresses_of_the_rfcs() {
        for (group, mac) in [
            ("224.0.0.1", [0x01, 0, 0x5E, 0, 0, 1]),
            ("239.255.1.2", [0x01, 0, 0x5E, 0x7F, 1, 2]),
            ("239.129.3.4", [0x01, 0, 0x5E, 1, 3, 4]),
            ("ff02::1:ff28:9c5a", [0x33, 0x33, 0xFF, 0x28, 0x9C, 0x5A]),
        ] {
            assert_eq!(group_mac(group.parse().expect("an address")), mac, "{group}");
        }
    }
}
