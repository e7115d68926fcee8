//! Every order in which up to seven packets can arrive, with losses and duplicates, through
//! receiver and sender: all of the answers are those of the naive rules, nothing SACKed is declared
//! lost, and everything arrives with no timer.

mod support;

use support::{
    Checked,
    fast_path::{Receiver, Sender},
};

struct Run {
    slow_path: Checked,
    receiver: Receiver,
    sender: Sender,
}

impl Run {
    fn new(packets: u32) -> Self {
        let mut sender = Sender::default();
        (0..packets).for_each(|_| sender.send_new());
        sender.wire.clear();
        Self { slow_path: Checked::new(512), receiver: Receiver::default(), sender }
    }

    /// One packet arrives, and everything that follows from it happens at once; retransmissions
    /// stay on the wire.
    fn deliver(&mut self, packet: u32) {
        self.receiver.on_packet(packet);
        loop {
            if let Some(record) = self.receiver.records.pop_front() {
                for command in self.slow_path.handle(&record) {
                    self.receiver.on_command(&command);
                }
            } else if let Some(ack) = self.receiver.acks.pop_front() {
                self.sender.on_ack(ack);
            } else if let Some(record) = self.sender.records.pop_front() {
                for command in self.slow_path.handle(&record) {
                    self.sender.on_command(&command, false);
                }
                self.sender.send_retries();
            } else {
                break;
            }
        }
    }

    /// The arrivals, then in the order of sending the retransmissions and one more packet as
    /// evidence of losses at the end. Returns how many retransmissions there were.
    fn play(packets: u32, arrivals: &[u32]) -> usize {
        let mut run = Self::new(packets);
        arrivals.iter().for_each(|&packet| run.deliver(packet));
        run.sender.send_new();
        while let Some(packet) = run.sender.wire.pop_front() {
            run.deliver(packet);
        }
        assert_eq!(run.receiver.epsn(), packets + 1, "{arrivals:?} of {packets}");
        assert_eq!(run.sender.una(), packets + 1, "{arrivals:?} of {packets}");
        assert!(!run.receiver.in_recovery() && !run.sender.is_recovering(), "{arrivals:?} of {packets}");
        assert!(run.slow_path.sender_is_clean(), "{arrivals:?} of {packets}");
        run.sender.resent
    }
}

/// Calls `visit` with every sequence of different numbers below `n`: all orders of all subsets.
fn arrangements(n: u32, prefix: &mut Vec<u32>, visit: &mut impl FnMut(&[u32])) {
    visit(prefix);
    for packet in 0..n {
        if !prefix.contains(&packet) {
            prefix.push(packet);
            arrangements(n, prefix, visit);
            prefix.pop();
        }
    }
}

#[test]
fn every_order_with_losses_of_up_to_seven() {
    let mut played = 0;
    for packets in 1..=7 {
        arrangements(packets, &mut Vec::new(), &mut |arrivals| {
            let resent = Run::play(packets, arrivals);
            played += 1;
            if arrivals.is_sorted() {
                assert_eq!(resent, packets as usize - arrivals.len(), "one for each loss: {arrivals:?}");
            }
        });
    }
    assert_eq!(played, 2 + 5 + 16 + 65 + 326 + 1957 + 13700);
}

#[test]
fn every_order_with_losses_and_one_duplicate_of_up_to_five() {
    for packets in 1..=5 {
        arrangements(packets, &mut Vec::new(), &mut |arrivals| {
            for &copy in arrivals {
                for place in 0..=arrivals.len() {
                    let mut arrivals = arrivals.to_vec();
                    arrivals.insert(place, copy);
                    Run::play(packets, &arrivals);
                }
            }
        });
    }
}

#[test]
fn every_order_with_every_packet_twice_of_three() {
    fn arrange(left: [u32; 3], arrivals: &mut Vec<u32>) {
        Run::play(3, arrivals);
        for packet in 0..3 {
            if left[packet as usize] != 0 {
                let mut left = left;
                left[packet as usize] -= 1;
                arrivals.push(packet);
                arrange(left, arrivals);
                arrivals.pop();
            }
        }
    }
    arrange([2; 3], &mut Vec::new());
}
