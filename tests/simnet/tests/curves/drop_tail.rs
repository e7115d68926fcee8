//! Losses that are congestion: queues that drop and never mark (docs/adr/0029).

use crate::crowd::{Crowd, Shares};
use crate::path::{Control, median};
use crate::random_loss::{FIXED, SHIPPED};
use simnet::Rest;
use wire::WireMode;

const SEEDS: u64 = 3;
const LASTS_NS: u64 = 50_000_000;

/// The median of each over the seeds.
fn shares(crowd: &Crowd, control: Control) -> Shares {
    median_of(crowd, control, SEEDS)
}

fn median_of(crowd: &Crowd, control: Control, seeds: u64) -> Shares {
    let runs: Vec<Shares> = (1..=seeds).map(|seed| crowd.shares(control, seed, LASTS_NS)).collect();
    let of = |field: fn(&Shares) -> f64| median(runs.iter().map(field).collect());
    let shares = Shares {
        goodput: of(|run| run.goodput),
        resent: of(|run| run.resent),
        jain: of(|run| run.jain),
        last: of(|run| run.last),
    };
    println!("{} flows, {} frames: {shares:?}", crowd.rtts_ns.len(), crowd.queue_frames);
    shares
}

#[test]
fn flows_share_a_queue_that_only_drops() {
    for (flows, queue) in [(2, 64), (2, 256), (16, 64), (16, 256)] {
        let shares = shares(&Crowd::new(flows, queue), SHIPPED);
        assert!(shares.jain >= 0.95, "{flows} flows, {queue} frames: {shares:?}");
        assert!(shares.goodput >= 0.9, "{flows} flows, {queue} frames: {shares:?}");
    }
}

#[test]
fn ten_to_one_sends_little_again() {
    for queue in [64, 256] {
        let shares = shares(&Crowd::new(10, queue), SHIPPED);
        assert!(shares.goodput >= 0.8 && shares.resent <= 0.05, "{queue} frames: {shares:?}");
    }
}

/// Neither collapses nor starves anybody.
fn sixty_four_to_one(queue: usize, resent_most: f64) {
    let shares = median_of(&Crowd::new(64, queue), SHIPPED, 5);
    assert!(shares.goodput >= 0.8, "{shares:?}");
    assert!(shares.resent <= resent_most, "{shares:?}");
    assert!(shares.jain >= 0.75, "{shares:?}");
}

/// There is room for 76 packets in all: little more than one for each flow.
#[test]
fn sixty_four_to_one_share_a_short_queue() {
    sixty_four_to_one(64, 0.10);
}

#[test]
fn sixty_four_to_one_share_a_long_queue() {
    sixty_four_to_one(256, 0.05);
}

/// A queue is seen behind hosts whose threads wait for a processor, too.
#[test]
fn a_queue_is_seen_behind_starved_hosts() {
    for queue in [64, 256] {
        let crowd = Crowd { rest: Rest::Starved, ..Crowd::new(10, queue) };
        let shares = shares(&crowd, SHIPPED);
        assert!(shares.resent <= 0.10, "{queue} frames: {shares:?}");
        let fixed = crowd.shares(FIXED, 1, LASTS_NS);
        assert!(fixed.resent > 0.2, "the negative control, {queue} frames: {fixed:?}");
    }
}

#[test]
fn a_long_path_lives_beside_a_short_one() {
    for queue in [64, 256] {
        let crowd = Crowd { rtts_ns: vec![2_000, 1_000_000], window: 2_048, ..Crowd::new(2, queue) };
        let shares = shares(&crowd, SHIPPED);
        assert!(shares.last >= 0.1, "{queue} frames: {shares:?}");
    }
}

/// The negative control: without any control most of what is sent is sent in vain.
#[test]
fn a_fixed_window_sends_most_packets_again() {
    let shares = Crowd::new(16, 64).shares(FIXED, 1, LASTS_NS);
    assert!(shares.resent > 0.5 && shares.jain < 0.75, "{shares:?}");
}

/// A Plain receiver says once what is missing, and the sender goes back: losses there are
/// congestion as often as elsewhere.
#[test]
fn plain_hears_of_losses_that_delay_confirms() {
    let crowd = Crowd { wire_mode: WireMode::Plain, ..Crowd::new(16, 64) };
    let [shipped, fixed] = [SHIPPED, FIXED].map(|control| crowd.shares(control, 1, LASTS_NS));
    println!("{shipped:?}\n{fixed:?}");
    assert!(shipped.goodput >= 0.8 && fixed.goodput < 0.4, "{shipped:?}, without control {fixed:?}");
    assert!(shipped.resent < fixed.resent / 2.0, "{shipped:?}, without control {fixed:?}");
}
