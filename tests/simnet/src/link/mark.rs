//! Marking Congestion Experienced, as a switch does.

const ETHERNET: usize = 14;
const VLAN_TAG: usize = 4;
const IPV4_HEADER: usize = 20;

/// Sets CE on an ECN-capable frame. False if it is not ECN-capable, or marked already.
pub fn mark_ce(frame: &mut [u8]) -> bool {
    let tagged = ethertype(frame, ETHERNET) == Some(0x8100);
    let l3 = if tagged { ETHERNET + VLAN_TAG } else { ETHERNET };
    match (ethertype(frame, l3), frame.get_mut(l3..)) {
        (Some(0x0800), Some(header)) => mark_ipv4(header),
        (Some(0x86DD), Some([_, second, ..])) => {
            // The ECN bits are the low two of the traffic class, which straddles the first two
            // bytes.
            let capable = matches!(*second >> 4 & 3, 1 | 2);
            *second |= if capable { 0x30 } else { 0 };
            capable
        }
        _ => false,
    }
}

fn ethertype(frame: &[u8], l3: usize) -> Option<u16> {
    let bytes = frame.get(l3 - 2..l3)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn mark_ipv4(packet: &mut [u8]) -> bool {
    let Some(header) = packet.first_chunk_mut::<IPV4_HEADER>() else { return false };
    if header[0] != 0x45 || !matches!(header[1] & 3, 1 | 2) {
        return false;
    }
    header[1] |= 3;
    [header[10], header[11]] = [0, 0];
    let mut sum: u32 =
        header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    let folded = u16::try_from(sum).unwrap_or(0);
    [header[10], header[11]] = (!folded).to_be_bytes();
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Datagram, Ecn, Flow, Template};

    fn frame(ecn: Ecn, vlan: Option<u16>, v6: bool) -> Vec<u8> {
        let (src, dst) = if v6 { ("fd00::1", "fd00::2") } else { ("10.0.0.1", "10.0.0.2") };
        let flow = Flow {
            src_mac: [2, 0, 0, 0, 0, 1],
            dst_mac: [2, 0, 0, 0, 0, 2],
            vlan,
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            src_port: 0xC001,
            dst_port: 4791,
            dscp: 26,
            ecn,
            ttl: 64,
        };
        let template = Template::new(&flow).unwrap();
        let mut frame = vec![0; template.len() + 40];
        template.emit(&mut frame, 40);
        frame
    }

    #[test]
    fn what_is_ecn_capable_is_marked_and_still_parses() {
        for (vlan, v6) in [(None, false), (Some(5), false), (None, true), (Some(5), true)] {
            for ecn in [Ecn::Ect0, Ecn::Ect1] {
                let mut frame = frame(ecn, vlan, v6);
                assert!(mark_ce(&mut frame));
                assert_eq!(Datagram::parse(&frame, 4791).unwrap().ecn, Ecn::Ce);
                assert!(!mark_ce(&mut frame), "once");
            }
            let mut incapable = frame(Ecn::NotEct, vlan, v6);
            let before = incapable.clone();
            assert!(!mark_ce(&mut incapable));
            assert_eq!(incapable, before);
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole = frame(Ecn::Ect0, None, false);
        for len in 0..whole.len() {
            mark_ce(&mut whole[..len].to_vec());
        }
    }
}
