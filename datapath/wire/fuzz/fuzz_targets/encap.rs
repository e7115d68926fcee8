//! Any bytes as an Ethernet frame: never a panic, ranges inside the frame, and a template of the
//! same flow that parses to the same datagram. The IPv4 checksum is made right first, for chance
//! never finds one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::encap::ROCE_UDP_PORT;
use wire::{Datagram, Flow, Packet, Template, icrc};

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut mended = bytes.to_vec();
    for l3 in [14, 18] {
        mend_checksum(&mut mended, l3);
        check(&mended);
    }
});

fn check(frame: &[u8]) {
    let Ok(datagram) = Datagram::parse(frame, ROCE_UDP_PORT) else { return };
    let transport = &frame[datagram.transport.clone()];
    let _ = Packet::parse(transport);
    let _ = icrc::verify(&frame[datagram.l3_offset..datagram.transport.end]);

    let flow = Flow {
        src_mac: datagram.src_mac,
        dst_mac: datagram.dst_mac,
        vlan: datagram.vlan,
        src: datagram.src,
        dst: datagram.dst,
        src_port: datagram.src_port,
        dst_port: ROCE_UDP_PORT,
        dscp: 0,
        ecn: datagram.ecn,
        ttl: 64,
    };
    let template = Template::new(&flow).expect("a received flow has addresses of one family");
    assert_eq!(template.flow(), flow);
    let mut again = vec![0xEE; template.len()];
    again.extend(transport);
    template.emit(&mut again, transport.len());
    let rebuilt = Datagram::parse(&again, ROCE_UDP_PORT).expect("a template's frame parses");
    assert_eq!(&again[rebuilt.transport.clone()], transport);
    let placed = Datagram { l3_offset: rebuilt.l3_offset, transport: rebuilt.transport.clone(), ..datagram };
    assert_eq!(rebuilt, placed);
}

fn mend_checksum(frame: &mut [u8], l3: usize) {
    let Some(header) = frame.get_mut(l3..l3 + 20) else { return };
    header[10..12].fill(0);
    let sum: u32 = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    let folded = (sum & 0xFFFF) + (sum >> 16);
    header[10..12].copy_from_slice(&(!folded).to_be_bytes()[2..]);
}
