mod arp;
mod conflict_detection;
mod echo;
mod hostile;
mod ndp;
mod resolve;

use super::*;
use core::net::{Ipv4Addr, Ipv6Addr};

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0A];
const OUR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0B];
const PEER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SECOND_NS: u64 = 1_000_000_000;

fn config() -> NeighborConfig {
    NeighborConfig {
        mac: OUR_MAC,
        ip: IpAddr::V4(OUR_IP),
        vlan: None,
        capacity: 4,
        nonce: [0; 6],
        defends: true,
    }
}

fn neighbor() -> Neighbor {
    Neighbor::new(&config())
}

/// The next frame, if any.
fn transmit(neighbor: &mut Neighbor, now: Time) -> Option<Vec<u8>> {
    let mut slot = [0xEE; 2048];
    neighbor.poll_transmit(now, &mut slot).map(|len| slot[..len].to_vec())
}

/// An ARP packet; `operation` 1 asks, 2 answers.
fn arp(dst: [u8; 6], operation: u8, sender: ([u8; 6], Ipv4Addr), target: ([u8; 6], Ipv4Addr)) -> Vec<u8> {
    let mut frame = [&dst[..], &sender.0, &[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, operation]].concat();
    for (mac, ip) in [sender, target] {
        frame.extend(mac);
        frame.extend(ip.octets());
    }
    frame.resize(60, 0);
    frame
}

/// The peer's reply to our request.
fn peer_reply() -> Vec<u8> {
    arp(OUR_MAC, 2, (PEER_MAC, PEER_IP), (OUR_MAC, OUR_IP))
}
