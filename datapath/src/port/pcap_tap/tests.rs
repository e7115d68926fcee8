use super::*;
use crate::port::fault::Fault;
use crate::port::test_port::{TestPort, receive, send};

/// A record read back: stamp in nanoseconds, length on the wire, bytes.
type Record = (u64, u32, Vec<u8>);

/// Reads a stream by the published layout of pcap, independently of the writer.
fn read(stream: &[u8]) -> Vec<Record> {
    let word = |at: usize| u32::from_le_bytes(stream[at..at + 4].try_into().unwrap());
    assert_eq!(stream[..8], [0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0]);
    assert_eq!((word(8), word(12), word(16), word(20)), (0, 0, 65_535, 1));
    let (mut at, mut records) = (24, Vec::new());
    while at < stream.len() {
        let kept = word(at + 8) as usize;
        let stamp = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        records.push((stamp, word(at + 12), stream[at + 16..at + 16 + kept].to_vec()));
        at += 16 + kept;
    }
    assert_eq!(at, stream.len());
    records
}

#[test]
fn both_directions_are_recorded_in_order_and_with_their_times() {
    let mut tap = PcapTap::new(TestPort::new(128), Vec::new());
    tap.inner_mut().limit = 3;
    assert_eq!(tap.rx_limit(), 3);
    tap.set_now(Time(1_999_999_999));
    tap.inner_mut().arriving.extend([vec![1; 60], vec![2; 128]]);
    assert_eq!(receive(&mut tap), [vec![1; 60], vec![2; 128]]);
    tap.set_now(Time(2_000_000_001));
    assert!(send(&mut tap, &[3; 77]));
    tap.tx_flush();
    assert_eq!(tap.inner().wire, [vec![3; 77]]);
    assert_eq!(tap.inner().now, Time(2_000_000_001), "the time goes on to the port below");
    assert_eq!(tap.tap_stats(), TapStats { recorded: 3, ..TapStats::default() });
    let expected = [
        (1_999_999_999, 60, vec![1; 60]),
        (1_999_999_999, 128, vec![2; 128]),
        (2_000_000_001, 77, vec![3; 77]),
    ];
    assert_eq!(read(&tap.into_parts().1), expected);
}

#[test]
fn the_first_bytes_are_those_that_wireshark_expects() {
    let mut tap = PcapTap::new(TestPort::new(128), Vec::new());
    tap.set_now(Time(5_000_000_006));
    send(&mut tap, &[0xAA, 0xBB]);
    let expected: [u8; 42] = [
        0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0,
        6, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0xAA, 0xBB,
    ];
    assert_eq!(tap.into_parts().1, expected);
}

#[test]
fn a_frame_longer_than_the_snapshot_length_is_cut_and_says_so() {
    let mut tap = PcapTap::new(TestPort::new(128), Vec::new());
    tap.inner_mut().arriving.push_back(vec![7; 70_000]);
    assert_eq!(receive(&mut tap), [vec![7; 70_000]], "traffic is not cut");
    let records = read(&tap.into_parts().1);
    assert_eq!((records[0].1, records[0].2.len()), (70_000, 65_535));
}

#[test]
fn cancelled_and_refused_frames_are_not_recorded() {
    let mut tap = PcapTap::new(TestPort::new(128), Vec::new());
    assert_eq!(tap.tx_slot().unwrap().len(), 128);
    tap.tx_cancel();
    tap.inner_mut().ring = 0;
    assert!(tap.tx_slot().is_none(), "a full ring below shows");
    tap.inner_mut().ring = 1;
    tap.tx_slot().unwrap()[0] = 9;
    tap.tx_commit(1);
    assert!(tap.tx_slot().is_none());
    tap.tx_flush();
    assert_eq!(tap.inner().wire, [vec![9]]);
    assert_eq!(tap.stats().tx_frames, 1);
    assert_eq!(read(&tap.into_parts().1), [(0, 1, vec![9])]);
}

#[test]
#[should_panic(expected = "without a slot")]
fn a_commit_after_a_refusal_panics() {
    let mut tap = PcapTap::new(TestPort::new(128), Vec::new());
    assert!(tap.tx_slot().is_some());
    tap.inner_mut().ring = 0;
    assert!(tap.tx_slot().is_none());
    tap.tx_commit(1);
}

#[test]
fn a_ring_that_fills_between_slot_and_commit_drops_and_counts() {
    let mut tap = PcapTap::new(TestPort::new(128), Vec::new());
    assert!(tap.tx_slot().is_some());
    tap.inner_mut().ring = 0;
    tap.tx_commit(1);
    assert_eq!(tap.stats().tx_dropped, 1);
    assert_eq!(tap.tap_stats().recorded, 0);
}

/// Takes so many bytes, then fails, once or for ever.
struct Failing {
    room: usize,
    taken: Vec<u8>,
    heals: bool,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room);
        if count == 0 {
            self.room = if self.heals { usize::MAX } else { 0 };
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= count;
        self.taken.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn a_failing_writer_never_fails_the_traffic_and_is_not_written_to_again() {
    for heals in [false, true] {
        let writer = Failing { room: 24 + 16 + 60 + 30, taken: Vec::new(), heals };
        let mut tap = PcapTap::new(TestPort::new(128), writer);
        for _ in 0..4 {
            assert!(send(&mut tap, &[5; 60]));
        }
        tap.inner_mut().arriving.push_back(vec![6; 60]);
        assert_eq!(receive(&mut tap), [vec![6; 60]]);
        tap.tx_flush();
        assert_eq!(tap.inner().wire, vec![vec![5; 60]; 4]);
        assert_eq!(tap.tap_stats(), TapStats { recorded: 1, unrecorded: 4, write_errors: 1 });
        assert_eq!(tap.stats().unrecorded, 4);
        let taken = tap.into_parts().1.taken;
        assert_eq!(taken.len(), 24 + 16 + 60 + 30, "nothing follows the torn record");
    }
}

#[test]
fn an_error_in_the_header_or_a_flush_is_counted() {
    let writer = Failing { room: 3, taken: Vec::new(), heals: true };
    let mut tap = PcapTap::new(TestPort::new(128), writer);
    assert!(send(&mut tap, &[5; 60]));
    assert_eq!(tap.tap_stats(), TapStats { recorded: 0, unrecorded: 1, write_errors: 1 });
    assert!(tap.flush_pcap().is_err());
    assert_eq!(tap.tap_stats().write_errors, 2);
}

/// A tap on each side of a fault port tells what was lost.
#[test]
fn taps_stack_with_faults() {
    let inside = PcapTap::new(TestPort::new(128), Vec::new());
    let faulty = Fault::new(inside, &"loss=50%,seed=4".parse().unwrap());
    let mut outside = PcapTap::new(faulty, Vec::new());
    for number in 0..100 {
        send(&mut outside, &[number; 20]);
        outside.tx_flush();
    }
    let lost = outside.inner().fault_stats().tx.lost;
    assert_eq!(outside.tap_stats().recorded, 100);
    assert_eq!(outside.inner().inner().tap_stats().recorded, 100 - lost);
    assert!(lost > 0);
}
