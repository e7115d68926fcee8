use super::*;
use core::net::{IpAddr, Ipv4Addr};
use wire::{Ecn, Flow};

const PD: ProtectionDomainId = ProtectionDomainId(1);

fn address() -> Address {
    let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let flow = Flow {
        src_mac: [2; 6],
        dst_mac: [4; 6],
        vlan: None,
        src: ip,
        dst: ip,
        src_port: 0xC000,
        dst_port: 4791,
        dscp: 0,
        ecn: Ecn::NotEct,
        ttl: 64,
    };
    let template = Template::new(&flow).expect("one family");
    Address { pd: PD, template, loopback: false, group: None, has_label: false }
}

#[test]
fn a_handle_is_found_in_its_own_domain_until_it_is_removed() {
    let mut table = AddressTable::new(2);
    let key = table.insert(address()).expect("room");
    assert!(table.get(key, PD).is_some());
    assert!(table.get(key, ProtectionDomainId(2)).is_none(), "another domain");
    assert!(table.get(AddressKey(key.0 ^ 1), PD).is_none(), "another key");
    assert!(table.get(AddressKey(u32::MAX), PD).is_none(), "behind the table");
    assert!(table.remove(key) && !table.remove(key));
    assert!(table.get(key, PD).is_none());
}

#[test]
fn a_full_table_says_so_and_no_key_comes_back_at_once() {
    let mut table = AddressTable::new(2);
    let mut seen = Vec::new();
    // A key byte is 1..=255, and the slots take turns.
    for _ in 0..2 * 255 {
        let key = table.insert(address()).expect("room");
        assert!(!seen.contains(&key) && key.0 & 0xFF != 0, "{key:?}");
        seen.push(key);
        assert!(table.remove(key));
    }
    let keys = [table.insert(address()), table.insert(address())];
    assert!(keys.iter().all(Option::is_some));
    assert_eq!((table.insert(address()), table.len(), table.capacity()), (None, 2, 2));
}
