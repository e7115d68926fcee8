//! Whatever goes wrong and whenever: every request completes once, in order; successes, then the
//! culprit, then flushes.

use datapath::qp::attr::RecoveryPolicy::{GoBackN, SelectiveRepeat};
use datapath::qp::state::QpState;
use datapath::queue::{Completion, WcStatus};
use simnet::{Faults, Qp, QpOptions, Region, Rig, RigOptions, Rng, Work};
use wire::Pmtu;

const LIMIT_NS: u64 = 60_000_000_000;

/// One queue pair's side: what it posted.
struct Side {
    qp: Qp,
    source: Region,
    target: Region,
    sends: Vec<u64>,
    receives: Vec<u64>,
}

fn side(rig: &mut Rig, qp: Qp) -> Side {
    let (source, target) = (rig.region(qp.node(), 4000), rig.region(qp.node(), 4000));
    Side { qp, source, target, sends: Vec::new(), receives: Vec::new() }
}

/// Posts between `here` and `there`, now and then something bad.
fn post(rig: &mut Rig, rng: &mut Rng, here: &mut Side, there: &Side, bad_ppm: u32) {
    let len = rng.index(2000);
    let from = here.source.at(0, len);
    let good = match rng.below(4) {
        0 => Work::send(from),
        1 => Work::send(from).imm(1),
        2 => Work::write(from, there.target.all()).imm(2),
        _ => Work::write(from, there.target.all()),
    };
    let bad = rng.hits(bad_ppm);
    let work = match (bad, rng.below(5)) {
        (false, _) => good,
        (true, 0) => Work::write(from, there.target.all()).to(there.target.iova, 0xDEAD),
        (true, 1) => {
            Work::write(from, there.target.at(3999, 0)).to(there.target.iova + 3999, there.target.key)
        }
        (true, 2) => Work::send(from).lkey(0xDEAD),
        (true, 3) => Work::send(here.source.at(0, 4000)),
        (true, _) => Work::write(here.source.at(3999, 2), there.target.all()),
    };
    if let Ok(wr_id) = rig.try_post(here.qp, &work) {
        here.sends.push(wr_id);
    }
    if let Ok(wr_id) = rig.try_post_recv(here.qp, &[here.target.at(0, 3000)]) {
        here.receives.push(wr_id);
    }
}

fn verify(what: &str, posted: &[u64], done: &[Completion]) {
    let numbers: Vec<u64> = done.iter().map(|done| done.wr_id).collect();
    assert_eq!(numbers, posted, "{what}: each once, in order");
    let first_bad = done.iter().position(|done| done.status != WcStatus::Success).unwrap_or(done.len());
    // At most one culprit; an end from outside has none.
    let culprit = done.get(first_bad).is_some_and(|done| done.status != WcStatus::WrFlushErr);
    let flushed = &done[first_bad + usize::from(culprit)..];
    assert!(flushed.iter().all(|done| done.status == WcStatus::WrFlushErr), "{what}: {done:?}");
}

fn run(seed: u64) -> (bool, bool) {
    let mut rng = Rng::new(seed);
    let recovery = if rng.below(4) == 0 { GoBackN } else { SelectiveRepeat };
    let options = QpOptions {
        pmtu: Pmtu::B256,
        window: [4, 32, 128][rng.index(3)],
        sq_psn: 0xFF_FFE0,
        timeout: [6, 10][rng.index(2)],
        rnr_retry: [1, 7][rng.index(2)],
        retry_cnt: 2,
        recovery,
        ..QpOptions::default()
    };
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(seed), options);
    let mut faults = Faults::reordering(100_000, 20_000);
    faults.loss_ppm = [0, 20_000, 200_000][rng.index(3)];
    faults.duplicate_ppm = 50_000;
    rig.net.set_faults(rig.up(a), faults);
    rig.net.set_faults(rig.up(b), faults);
    let (mut left, mut right) = (side(&mut rig, a), side(&mut rig, b));
    for _ in 0..60 {
        post(&mut rig, &mut rng, &mut left, &right, 20_000);
        post(&mut rig, &mut rng, &mut right, &left, 20_000);
        rig.run_for(rng.below(10_000));
    }
    rig.run_until_quiet(LIMIT_NS).unwrap_or_else(|stuck| panic!("seed {seed}: never quiet: {stuck:?}"));
    let failed = rig.sends(a).iter().chain(rig.sends(b)).any(|done| done.status != WcStatus::Success);
    let survived = rig.sends(a).len() == left.sends.len() && !failed;
    // What is left has no reason to end by itself: receives that nobody used.
    let died = [a, b].map(|qp| rig.state(qp) == QpState::Err);
    rig.to_err(a);
    rig.to_err(b);
    rig.run_until_quiet(LIMIT_NS).unwrap_or_else(|stuck| panic!("seed {seed}: never quiet: {stuck:?}"));
    for (name, side, died) in [("left", &left, died[0]), ("right", &right, died[1])] {
        verify(&format!("seed {seed}, {name} sends"), &side.sends, rig.sends(side.qp));
        verify(&format!("seed {seed}, {name} receives"), &side.receives, rig.recvs(side.qp));
        let fatal = rig.events(side.qp.node()).len();
        assert_eq!(fatal, usize::from(died), "seed {seed}, {name}: one fatal event, unless we ended it");
    }
    rig.verify_guards();
    (failed, survived)
}

#[test]
fn every_request_ends_once_and_in_order() {
    let outcomes: Vec<_> = (0..400).map(run).collect();
    let failed = outcomes.iter().filter(|(failed, _)| *failed).count();
    let survived = outcomes.iter().filter(|(_, survived)| *survived).count();
    assert!(failed > 200 && survived > 20, "{failed} runs failed, {survived} survived: both must be tried");
}
