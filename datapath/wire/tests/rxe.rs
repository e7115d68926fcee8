//! Captures of Linux soft-RoCE (tests/data/rxe): every packet parses, its ICRC holds, and it is
//! emitted again bit for bit.

#[path = "common/pcap.rs"]
mod pcap;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use wire::encap::ROCE_UDP_PORT;
use wire::{Datagram, EncapError, Packet, Repr, WireMode, bth, icrc};

fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../tests/data/rxe", name].iter().collect()
}

/// How often each number occurred.
type Census = BTreeMap<u8, usize>;

/// One line of INDEX.txt: `file | opcode:count .. | syndrome:count ..`, counted by another tool.
fn index() -> Vec<(String, Census, Census)> {
    let census = |column: &str| -> Census {
        let pair = |entry: &str| {
            let (value, count) = entry.split_once(':').unwrap();
            (value.parse().unwrap(), count.parse().unwrap())
        };
        column.split_whitespace().map(pair).collect()
    };
    let text = fs::read_to_string(data("INDEX.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split('|').collect();
            (columns[0].trim().to_owned(), census(columns[1]), census(columns[2]))
        })
        .collect()
}

/// The packet that `frame` holds, checked and emitted again.
#[track_caller]
fn check(frame: &[u8]) -> Option<Repr> {
    let datagram = match Datagram::parse(frame, ROCE_UDP_PORT) {
        Ok(datagram) => datagram,
        Err(error) => {
            assert_eq!(error, EncapError::NotRoce);
            return None;
        }
    };
    assert!(icrc::verify(&frame[datagram.l3_offset..datagram.transport.end]), "ICRC");
    let transport = &frame[datagram.transport];
    let packet = Packet::parse(transport).unwrap();
    assert_eq!(packet.mode(), WireMode::Plain);
    assert_eq!(packet.pad(), bth::pad_of(packet.payload().len()));

    let repr = Repr::parse(&packet);
    let mut again = vec![0xEE; repr.header_len()];
    repr.emit(&mut again);
    again.extend(packet.payload());
    again.extend(vec![0; usize::from(packet.pad())]);
    again.extend(packet.icrc().to_le_bytes());
    assert_eq!(again, transport);
    Some(repr)
}

#[test]
fn every_soft_roce_packet_is_understood() {
    let index = index();
    assert_eq!(index.len(), 13, "a capture is missing from the index");
    for (name, opcodes, syndromes) in index {
        let (mut seen_opcodes, mut seen_syndromes) = (Census::new(), Census::new());
        let file = fs::read(data(&name)).unwrap();
        for repr in pcap::read(&file).into_iter().filter_map(check) {
            *seen_opcodes.entry(repr.bth.opcode as u8).or_default() += 1;
            if let Some(aeth) = repr.aeth {
                *seen_syndromes.entry(aeth.syndrome.to_u8()).or_default() += 1;
            }
        }
        assert_eq!(seen_opcodes, opcodes, "opcodes of {name}");
        assert_eq!(seen_syndromes, syndromes, "syndromes of {name}");
    }
}
