//! What a packet costs the slow path, in steps of work, does not depend on the window.

mod support;

use std::collections::VecDeque;

use sr_recovery::{Command, Record, SlowPath, SlowPathConfig};
use support::{STREAM, position, psn, rng::Rng};

const PACKETS: u32 = 60_000;

fn slow_path(window: u32) -> SlowPath {
    SlowPath::new(SlowPathConfig { max_streams: 2, window_max: window, contexts: 1 })
}

/// A sender that keeps its window full, sends what is lost again at once, and sees every arrival as
/// a SACK.
struct Sender {
    slow_path: SlowPath,
    una: u32,
    snd_nxt: u32,
    arrived: Vec<bool>,
    /// In flight, each with whether it will arrive.
    wire: VecDeque<(u32, bool)>,
    sent: u64,
    records: u64,
}

impl Sender {
    fn new(window: u32) -> Self {
        let arrived = vec![false; PACKETS as usize];
        let wire = VecDeque::new();
        Self { slow_path: slow_path(window), una: 0, snd_nxt: 0, arrived, wire, sent: 0, records: 0 }
    }

    fn send(&mut self, packet: u32, rng: &mut Rng, loss: u32) {
        self.wire.push_back((packet, !rng.chance(loss)));
        self.sent += 1;
    }

    fn handle(&mut self, record: &Record) -> Vec<u32> {
        self.records += 1;
        self.slow_path.handle(record);
        let mut lost = Vec::new();
        while let Some(command) = self.slow_path.poll() {
            if let Command::Lost { first, last, .. } = command {
                lost.extend(position(first)..=position(last));
            }
        }
        lost
    }

    fn run(window: u32, loss: u32, threshold: u8) -> f64 {
        let mut rng = Rng::new(u64::from(window));
        let mut sender = Self::new(window);
        while sender.una < PACKETS {
            while sender.snd_nxt < PACKETS && sender.snd_nxt - sender.una < window {
                sender.send(sender.snd_nxt, &mut rng, loss);
                sender.snd_nxt += 1;
            }
            let (una, snd_nxt) = (psn(sender.una), psn(sender.snd_nxt));
            let (stream, generation, seq) = (STREAM, 1, 0);
            let record = match sender.wire.pop_front() {
                Some((_, false)) => continue,
                Some((packet, true)) => {
                    sender.arrived[packet as usize] = true;
                    while sender.una < PACKETS && sender.arrived[sender.una as usize] {
                        sender.una += 1;
                    }
                    let una = psn(sender.una);
                    let sack = (packet >= sender.una).then(|| psn(packet));
                    let (bitmap_base, bitmap) = (una, 0);
                    Record::Ack {
                        stream,
                        generation,
                        seq,
                        una,
                        snd_nxt,
                        sack,
                        bitmap_base,
                        bitmap,
                        threshold,
                    }
                }
                None => {
                    // the timer
                    sender.handle(&Record::Rto { stream, generation, seq });
                    sender.send(sender.una, &mut rng, 0);
                    Record::Resent { stream, generation, seq, psn: una, snd_nxt }
                }
            };
            for packet in sender.handle(&record) {
                sender.send(packet, &mut rng, loss);
                let snd_nxt = psn(sender.snd_nxt);
                sender.handle(&Record::Resent { stream, generation, seq, psn: psn(packet), snd_nxt });
            }
        }
        let stats = sender.slow_path.stats();
        assert!(stats.packets_lost > u64::from(PACKETS) * u64::from(loss) / 1200, "{stats:?}");
        assert_eq!(stats.records, sender.records);
        as_ratio(stats.work, sender.sent + sender.records)
    }
}

fn as_ratio(work: u64, of: u64) -> f64 {
    let as_f64 = |n: u64| f64::from(u32::try_from(n).unwrap());
    as_f64(work) / as_f64(of)
}

#[test]
fn a_sender_does_constant_work_for_each_packet_and_record() {
    for loss in [1, 10, 100, 300] {
        for threshold in [0, 31] {
            for window in [64, 512, 32_768] {
                let work = Sender::run(window, loss, threshold);
                assert!(work < 6.0, "{work:.2} with window {window}, loss {loss}, threshold {threshold}");
            }
        }
    }
}

#[test]
fn a_receiver_does_constant_work_for_each_record() {
    for window in [64_u32, 512, 32_768] {
        let mut slow_path = slow_path(window);
        let mut rng = Rng::new(u64::from(window));
        let (mut base, mut records) = (0, 0_u64);
        while base < PACKETS {
            // A window of single packets in random order.
            let mut order: Vec<u32> = (base..base + window).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, rng.below(u32::try_from(i).unwrap() + 1) as usize);
            }
            for packet in order {
                let (first, epsn) = (psn(packet), psn(base));
                slow_path.handle(&Record::RxRun { stream: STREAM, generation: 1, first, last: first, epsn });
                records += 1;
                while slow_path.poll().is_some() {}
            }
            base += window;
        }
        let work = as_ratio(slow_path.stats().work, records);
        assert!(work < 2.0, "{work:.2} with window {window}");
        assert!(slow_path.stats().advances > 0);
    }
}

#[test]
fn one_record_costs_the_window_at_most() {
    let window = 32_768;
    let mut slow_path = slow_path(window);
    let record = Record::Ack {
        stream: STREAM,
        generation: 1,
        seq: 0,
        una: psn(0),
        snd_nxt: psn(window),
        sack: Some(psn(window - 1)),
        bitmap_base: psn(0),
        bitmap: 0,
        threshold: 0,
    };
    slow_path.handle(&record);
    assert_eq!(slow_path.stats().packets_lost, u64::from(window) - 1);
    assert_eq!(slow_path.poll().map(|command| matches!(command, Command::Lost { .. })), Some(true));
    let first = slow_path.stats().work;
    slow_path.handle(&record);
    assert!(slow_path.stats().work - first < 5, "the second time there is nothing to find");
}
