//! Any bytes as a transport packet: never a panic, lengths that add up, and the same bytes when
//! emitted again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Headers, Packet, Repr};

fuzz_target!(|bytes: &[u8]| {
    let Ok(packet) = Packet::parse(bytes) else {
        let _ = Headers::new_checked(bytes);
        return;
    };
    let icrc = bytes.len() - 4;
    let pad = icrc - usize::from(packet.pad());
    assert_eq!(packet.header_len() + packet.payload().len(), pad);
    assert!(packet.pad() == 0 || packet.opcode().is_end());

    let repr = Repr::parse(&packet);
    let mut again = vec![0xEE; repr.header_len()];
    repr.emit(&mut again);
    again.extend(packet.payload());
    again.extend(&bytes[pad..icrc]);
    again.extend(packet.icrc().to_le_bytes());
    assert_eq!(again, bytes);
});
