//! Files of every kind hold the same frames, and no file does harm.

use super::*;

const FRAMES: [&[u8]; 3] = [b"a frame", b"", b"another one, of odd length"];

/// Bytes of a frame, and its length on the wire.
type Seen = (Vec<u8>, u32);

fn read(file: &[u8]) -> (Vec<Seen>, Result<(), CaptureError>) {
    let mut frames = Vec::new();
    let result = for_each(file, |frame| frames.push((frame.bytes.to_vec(), frame.len)));
    (frames, result)
}

fn whole() -> Vec<Seen> {
    FRAMES.iter().map(|frame| (frame.to_vec(), len(frame))).collect()
}

fn len(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a short frame")
}

/// Words in one byte order or the other.
struct Writer {
    big: bool,
    file: Vec<u8>,
}

impl Writer {
    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.file.extend(if self.big { word.to_be_bytes() } else { word.to_le_bytes() });
        }
    }

    fn block(&mut self, kind: u32, head: &[u32], data: &[u8]) {
        let total = 12 + u32::try_from(4 * head.len()).expect("a few words") + len(data).next_multiple_of(4);
        self.words(&[kind, total]);
        self.words(head);
        self.file.extend(data);
        self.file.resize(self.file.len().next_multiple_of(4), 0);
        self.words(&[total]);
    }

    /// Two 16-bit numbers of which the first comes first.
    fn halves(&self, first: u32, second: u32) -> u32 {
        if self.big { first << 16 | second } else { second << 16 | first }
    }
}

fn classic(magic: u32, big: bool, link_type: u32) -> Vec<u8> {
    let mut writer = Writer { big, file: Vec::new() };
    let version = writer.halves(2, 4);
    writer.words(&[magic, version, 0, 0, 65_535, link_type]);
    for frame in FRAMES {
        writer.words(&[1, 2, len(frame), len(frame)]);
        writer.file.extend(frame);
    }
    writer.file
}

fn ng(big: bool, link_type: u32, simple: bool) -> Vec<u8> {
    let mut writer = Writer { big, file: Vec::new() };
    let version = writer.halves(1, 0);
    writer.block(0x0A0D_0D0A, &[0x1A2B_3C4D, version, u32::MAX, u32::MAX], &[]);
    let link = writer.halves(link_type, 0);
    writer.block(1, &[link, 0], &[]);
    for frame in FRAMES {
        // A block of a kind that nobody knows is skipped.
        writer.block(0x0BAD, &[1, 2, 3], b"what?");
        if simple {
            writer.block(3, &[len(frame)], frame);
        } else {
            writer.block(6, &[0, 1, 2, len(frame), len(frame)], frame);
        }
    }
    writer.file
}

#[test]
fn classic_files_of_both_orders_and_resolutions() {
    for magic in [0xA1B2_C3D4, 0xA1B2_3C4D] {
        for big in [false, true] {
            assert_eq!(read(&classic(magic, big, 1)), (whole(), Ok(())), "{magic:x} {big}");
        }
    }
}

#[test]
fn pcapng_files_of_both_orders_and_sections_of_different_orders() {
    for big in [false, true] {
        for simple in [false, true] {
            assert_eq!(read(&ng(big, 1, simple)), (whole(), Ok(())), "{big} {simple}");
        }
    }
    let both = [ng(false, 1, false), ng(true, 1, true)].concat();
    assert_eq!(read(&both), ([whole(), whole()].concat(), Ok(())));
}

#[test]
fn a_frame_that_was_cut_says_how_long_it_was() {
    let mut writer = Writer { big: false, file: Vec::new() };
    writer.block(0x0A0D_0D0A, &[0x1A2B_3C4D, 1, 0, 0], &[]);
    writer.block(1, &[1, 4], &[]);
    writer.block(3, &[100], b"four");
    assert_eq!(read(&writer.file), (vec![(b"four".to_vec(), 100)], Ok(())));
}

#[test]
fn what_cannot_be_read_is_named() {
    for file in [&b""[..], b"short", &[0; 100]] {
        assert_eq!(read(file).1, Err(CaptureError::Format));
    }
    for file in [classic(0xA1B2_C3D4, false, 113), ng(false, 113, false), ng(true, 113, true)] {
        assert_eq!(read(&file), (Vec::new(), Err(CaptureError::LinkType(113))));
    }
}

#[test]
fn a_file_that_ends_anywhere_is_broken_there_and_its_frames_are_seen() {
    for file in [classic(0xA1B2_C3D4, false, 1), ng(false, 1, false), ng(true, 1, true)] {
        for end in 0..file.len() {
            let (frames, _) = read(&file[..end]);
            assert_eq!(frames, whole()[..frames.len()], "{end} bytes");
        }
        let (frames, result) = read(&file[..file.len() - 1]);
        assert_eq!(frames, whole()[..2]);
        assert!(matches!(result, Err(CaptureError::Broken { .. })), "{result:?}");
    }
}

#[test]
fn no_length_leads_outside_the_file() {
    for file in [classic(0xA1B2_C3D4, false, 1), ng(false, 1, false), ng(true, 1, true)] {
        for at in (0..file.len()).step_by(4) {
            for word in [0, 1, 4, 12, 0x7FFF_FFFC, u32::MAX] {
                let mut file = file.clone();
                let end = file.len().min(at + 4);
                file[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
                let (frames, _) = read(&file);
                let bytes: usize = frames.iter().map(|(bytes, _)| bytes.len()).sum();
                assert!(bytes <= file.len(), "{word:#x} at {at}");
            }
        }
    }
}

#[test]
fn padding_that_is_not_zero_would_be_sent_otherwise() {
    use wire::{Ecn, Flow, Opcode, Repr, Template, WireMode, icrc};
    let flow = Flow {
        src_mac: [2; 6],
        dst_mac: [4; 6],
        vlan: None,
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        src_port: 0xC000,
        dst_port: 4791,
        dscp: 0,
        ecn: Ecn::Ect0,
        ttl: 64,
    };
    let template = Template::new(&flow).expect("a flow");
    for (padding, changed) in [(0, 0), (7, 1)] {
        let mut repr = Repr::new(WireMode::Srnic, Opcode::RcSendOnly).expect("a packet");
        repr.bth.pad = 1;
        let headers = repr.header_len();
        let mut frame = vec![0; template.len() + headers + 4 + 4];
        template.emit(&mut frame, headers + 8);
        repr.emit(&mut frame[template.len()..]);
        frame[template.len() + headers + 3] = padding;
        icrc::seal(&mut frame[template.l3_offset()..]);
        let mut census = Census::new(4791);
        census.add(Frame { bytes: &frame, len: len(&frame), at_ns: None });
        assert_eq!((census.packets(), census.changed, census.bad_icrc), (1, changed, 0));
        assert_eq!(census.is_clean(), changed == 0);
    }
}

#[test]
fn stamps_are_nanoseconds_whatever_their_unit_was() {
    let stamps = |file: &[u8]| {
        let mut stamps = Vec::new();
        for_each(file, |frame| stamps.push(frame.at_ns)).expect("it is whole");
        stamps
    };
    assert_eq!(stamps(&classic(0xA1B2_C3D4, true, 1)), [Some(1_000_002_000); 3]);
    assert_eq!(stamps(&classic(0xA1B2_3C4D, false, 1)), [Some(1_000_000_002); 3]);
    let ticks = 1 << 32 | 2;
    assert_eq!(stamps(&ng(false, 1, false)), [Some(ticks * 1000); 3]);
    assert_eq!(stamps(&ng(true, 1, true)), [None; 3], "a simple block has none");
    // An option of the interface says the unit; 10^-20 s is none that can be counted in.
    for (unit, expected) in
        [(9, Some(ticks)), (3, Some(ticks * 1_000_000)), (0x80, Some(ticks * 1_000_000_000)), (20, None)]
    {
        let mut writer = Writer { big: false, file: Vec::new() };
        writer.block(0x0A0D_0D0A, &[0x1A2B_3C4D, 1, 0, 0], &[]);
        writer.block(1, &[1, 0, 0x0004_0001, 0x6C6C_6977, 0x0001_0009, unit, 0], &[]);
        writer.block(6, &[0, 1, 2, 4, 4], b"four");
        assert_eq!(stamps(&writer.file), [expected], "{unit}");
    }
}
