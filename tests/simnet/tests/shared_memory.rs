//! Frames in memory that the peer goes on writing, as that of a memif is (docs/adr/0047).

use datapath::qp::attr::{CongestionAlgorithm, RecoveryPolicy};
use simnet::{Message, Op, QpOptions, Rig, RigOptions, Rng, Scribbles, Transfer};
use wire::{Pmtu, WireMode};

const LIMIT_NS: u64 = 200_000_000;

/// All operations both ways, over a path on which frames arrive that are written meanwhile.
fn transfer(options: QpOptions, scribbles: Scribbles) -> (bool, Rig) {
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(7), options);
    rig.net.scribble(a.node(), scribbles);
    rig.net.scribble(b.node(), scribbles);
    let mut rng = Rng::new(3);
    let mut mix = || Message::mix_of(&Op::WITH_RESPONSES, &mut rng, 60, 20_000);
    let (there, back) = (mix(), mix());
    let mut transfers =
        [Transfer::new(&mut rig, a, b, there, 1), Transfer::new(&mut rig, b, a, back, 1_000_000)];
    let done = Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS).is_ok();
    (done, rig)
}

#[test]
fn what_a_peer_writes_after_its_headers_were_copied_changes_nothing() {
    let srnic = QpOptions::default();
    let plain = QpOptions {
        window: 32,
        wire_mode: WireMode::Plain,
        recovery: RecoveryPolicy::GoBackN,
        congestion: CongestionAlgorithm::Fixed,
        ..QpOptions::default()
    };
    for options in [srnic, plain] {
        for pmtu in [Pmtu::B256, Pmtu::B4096] {
            let (done, rig) = transfer(QpOptions { pmtu, ..options }, Scribbles::BehindTheCopy);
            assert!(done, "{:?}, {pmtu:?}", options.wire_mode);
            rig.verify_guards();
        }
    }
}

/// The control: such frames are nobody's.
#[test]
fn what_it_wrote_before_is_seen() {
    let (done, rig) = transfer(QpOptions::default(), Scribbles::BeforeTheCopy);
    assert!(!done);
    rig.verify_guards();
}
