//! A sender and a receiver over a network that loses, duplicates and reorders in both directions,
//! with a slow path that answers late. Safety is checked all along; then the faults stop and
//! everything must arrive.

mod support;

use std::collections::VecDeque;

use proptest::prelude::*;
use support::{
    Checked,
    fast_path::{Ack, Receiver, Sender},
    rng::Rng,
};

#[derive(Clone, Copy, Debug)]
struct Faults {
    /// In 1000 packets or acknowledgements.
    loss: u32,
    duplication: u32,
    reordering: u32,
    /// In 1000 packets that arrive: the receiver cannot place it.
    refusal: u32,
    /// In 1000 steps, the slow path has a turn.
    slow_path: u32,
}

const HEALED: Faults = Faults { loss: 0, duplication: 0, reordering: 0, refusal: 0, slow_path: 1000 };

struct Swarm {
    rng: Rng,
    packets: u32,
    window: u32,
    sender: Sender,
    receiver: Receiver,
    /// One slow path for each end, as on two hosts.
    ends: [Checked; 2],
    acks: VecDeque<Ack>,
    timeouts: u32,
}

impl Swarm {
    fn new(seed: u64, packets: u32, window: u32, threshold: u8) -> Self {
        let mut sender = Sender::default();
        sender.threshold = threshold;
        Self {
            rng: Rng::new(seed),
            packets,
            window,
            sender,
            receiver: Receiver::default(),
            ends: [Checked::new(window), Checked::new(window)],
            acks: VecDeque::new(),
            timeouts: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.sender.una() == self.packets
    }

    fn step(&mut self, faults: Faults) {
        while self.sender.snd_nxt() < self.packets && self.sender.in_flight() < self.window {
            self.sender.send_new();
        }
        self.sender.send_retries();
        let packet = take(&mut self.rng, faults, &mut self.sender.wire);
        match packet {
            Some(packet) if self.rng.chance(faults.refusal) => self.receiver.refuse(packet),
            Some(packet) => self.receiver.on_packet(packet),
            None => {}
        }
        self.acks.append(&mut self.receiver.acks);
        if let Some(ack) = take(&mut self.rng, faults, &mut self.acks) {
            self.sender.on_ack(ack);
        }
        if self.rng.chance(faults.slow_path) {
            self.slow_path_turn();
        }
        if self.is_idle() && self.sender.in_flight() != 0 {
            self.timeouts += 1;
            self.sender.on_timeout();
        }
    }

    fn is_idle(&self) -> bool {
        let records = self.sender.records.len() + self.receiver.records.len();
        self.sender.wire.is_empty() && self.acks.is_empty() && self.receiver.acks.is_empty() && records == 0
    }

    fn slow_path_turn(&mut self) {
        let [sending, receiving] = &mut self.ends;
        if let Some(record) = self.receiver.records.pop_front() {
            for command in receiving.handle(&record) {
                self.receiver.on_command(&command);
            }
        }
        if let Some(record) = self.sender.records.pop_front() {
            let unseen = !self.sender.records.is_empty();
            for command in sending.handle(&record) {
                self.sender.on_command(&command, unseen);
            }
        }
    }

    fn run(seed: u64, packets: u32, window: u32, threshold: u8, faults: Faults) -> Self {
        Self::new(seed, packets, window, threshold).play(faults)
    }

    /// This run with a sender that finds no scoreboard.
    fn untracked(mut self) -> Self {
        self.ends[0] = Checked::untracked(self.window);
        self.sender.guesses = true;
        self
    }

    fn play(self, faults: Faults) -> Self {
        let mut swarm = self;
        let packets = swarm.packets;
        for _ in 0..packets * 2 {
            swarm.step(faults);
        }
        // Each step delivers a packet or fires the timer, which alone moves una by one at least.
        let mut left = packets * 60 + 1000;
        while !swarm.is_done() || !swarm.sender.records.is_empty() || !swarm.receiver.records.is_empty() {
            swarm.step(HEALED);
            left -= 1;
            assert_ne!(left, 0, "stuck at una {} of {packets}", swarm.sender.una());
        }
        assert_eq!(swarm.receiver.epsn(), packets);
        assert!(!swarm.receiver.in_recovery());
        assert!(!swarm.sender.is_recovering() && swarm.ends[0].sender_is_clean());
        swarm
    }
}

/// What the network makes of the next item: it may lose it, deliver it twice, or take a later one
/// first.
fn take<T: Copy>(rng: &mut Rng, faults: Faults, queue: &mut VecDeque<T>) -> Option<T> {
    if queue.len() > 1 && rng.chance(faults.reordering) {
        let other = rng.below(u32::try_from(queue.len()).unwrap().min(20)) as usize;
        queue.swap(0, other);
    }
    let item = *queue.front()?;
    if !rng.chance(faults.duplication) {
        queue.pop_front();
    }
    (!rng.chance(faults.loss)).then_some(item)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn everything_arrives_after_the_faults_stop(
        seed in any::<u64>(),
        packets in 1..400_u32,
        window in prop_oneof![1..8_u32, 8..128_u32],
        threshold in prop_oneof![2 => Just(0_u8), 1 => 0..32_u8],
        loss in 0..300_u32,
        duplication in 0..200_u32,
        reordering in prop_oneof![Just(0_u32), 0..300_u32],
        refusal in prop_oneof![Just(0_u32), 0..100_u32],
        slow_path in 50..1000_u32,
    ) {
        let faults = Faults { loss, duplication, reordering, refusal, slow_path };
        Swarm::run(seed, packets, window, threshold, faults);
        Swarm::new(seed, packets, window, threshold).untracked().play(faults);
    }
}

/// Loss in order on the way there and none on the way back: marks make one retransmission for each
/// loss, with a few timeouts for losses at the end of the window, after which nothing new is sent
/// (protocol.md 2.4).
#[test]
fn a_clean_way_back_needs_one_retransmission_for_each_loss() {
    let (packets, loss) = (5000, 100);
    let mut lost = 0;
    let mut swarm = Swarm::new(7, packets, 200, 0);
    while !swarm.is_done() {
        // Drops packets here, so that they can be counted, and leaves acknowledgements alone.
        while !swarm.sender.wire.is_empty() && swarm.rng.chance(loss) {
            swarm.sender.wire.pop_front();
            lost += 1;
        }
        swarm.step(HEALED);
    }
    assert!(lost > 400, "{lost}");
    let probes = 2 * swarm.timeouts as usize;
    assert!(swarm.sender.resent <= lost + probes, "{} resent, {lost} lost", swarm.sender.resent);
    assert!(swarm.timeouts < 25, "{} timeouts", swarm.timeouts);
}

/// Without a scoreboard what is lost once is resent once, as long as nothing is reordered.
#[test]
fn a_sender_without_a_scoreboard_resends_what_is_lost_once() {
    let packets = 5000;
    let mut swarm = Swarm::new(7, packets, 200, 0).untracked();
    let (mut lost, mut newest) = (0, 0);
    while !swarm.is_done() {
        // New packets alone, the last of them aside, which nothing shows to be lost.
        while let Some(&packet) = swarm.sender.wire.front().filter(|packet| **packet >= newest) {
            newest = packet + 1;
            if newest == packets || !swarm.rng.chance(50) {
                break;
            }
            swarm.sender.wire.pop_front();
            lost += 1;
        }
        swarm.step(HEALED);
    }
    assert!(lost > 100, "{lost}");
    assert_eq!((swarm.sender.resent, swarm.timeouts), (lost, 0));
}
