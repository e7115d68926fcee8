//! Classic pcap files: enough to read a capture of ours and to write one for tshark.

/// A little-endian Ethernet capture with microsecond stamps, as tcpdump writes it here.
const MAGIC: u32 = 0xA1B2_C3D4;
const ETHERNET: u32 = 1;
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const SNAPLEN: u32 = 65535;

/// The frames of a capture. Panics if the file is not one or if a frame was cut.
pub fn read(file: &[u8]) -> Vec<&[u8]> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(20)), (MAGIC, ETHERNET), "not a capture of Ethernet frames");
    let mut frames = Vec::new();
    let mut at = FILE_HEADER;
    while at < file.len() {
        let (captured, original) = (word(at + 8), word(at + 12));
        assert_eq!(captured, original, "a frame was cut");
        at += RECORD_HEADER + captured as usize;
        frames.push(&file[at - captured as usize..at]);
    }
    frames
}

/// A capture of these frames, one microsecond apart.
pub fn write<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut put = |word: u32| file.extend(word.to_le_bytes());
    [MAGIC, 4 << 16 | 2, 0, 0, SNAPLEN, ETHERNET].into_iter().for_each(&mut put);
    for (us, frame) in (0..).zip(frames) {
        let len = u32::try_from(frame.len()).unwrap();
        [0, us, len, len].into_iter().for_each(|word: u32| file.extend(word.to_le_bytes()));
        file.extend(frame);
    }
    file
}

#[test]
fn what_is_written_reads_back() {
    let frames: [&[u8]; 3] = [b"one", b"", b"a longer one"];
    assert_eq!(read(&write(frames)), frames);
}
