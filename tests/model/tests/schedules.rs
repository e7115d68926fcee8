//! Random schedules: the rules of protocol.md 2.4 hold in all of them.

use srnic_model::run;
use srnic_model::schedule::Schedule;
use srnic_model::world::{Stats, World};

/// How a failing seed is played again.
const REPLAY: &str = "cargo test -p srnic-model --test schedules replay -- --ignored --nocapture";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn play(seed: u64) -> Result<Stats, String> {
    run(seed, None).map_err(|what| format!("{what}\nreplay: SRNIC_MODEL_SEED={seed} {REPLAY}"))
}

/// Plays all schedules, and returns what they did and what went wrong.
fn play_all(seeds: std::ops::Range<u64>) -> (Stats, Vec<String>) {
    let (mut sum, mut failures) = (Stats::default(), Vec::new());
    for seed in seeds {
        match play(seed) {
            Ok(stats) => sum.add(&stats),
            Err(failure) => failures.push(failure),
        }
    }
    (sum, failures)
}

fn assert_none(failures: &[String]) {
    let shown = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(failures.is_empty(), "{} schedules failed, among them:\n{shown}", failures.len());
}

#[test]
fn random_schedules_hold() {
    let (sum, failures) = play_all(0..number("SRNIC_MODEL_SCHEDULES").unwrap_or(20_000));
    assert_none(&failures);
    assert!(
        sum.messages > 0 && sum.timeouts > 0 && sum.resent > 0,
        "the schedules exercise nothing: {sum:?}"
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..200 {
        assert_eq!(play(seed), play(seed), "seed {seed}");
    }
}

#[test]
#[ignore = "minutes; run in release"]
fn million() {
    let count = number("SRNIC_MODEL_SCHEDULES").unwrap_or(1_000_000);
    // Seeds that no shorter run has seen, on two cores.
    let base = number("SRNIC_MODEL_FIRST_SEED").unwrap_or(1 << 32);
    let half = base + count / 2;
    let started = std::time::Instant::now();
    let halves = std::thread::scope(|scope| {
        let halves = [base..half, half..base + count].map(|seeds| scope.spawn(|| play_all(seeds)));
        halves.map(|half| half.join().expect("the model does not panic"))
    });
    let [(mut sum, mut failures), (other, others)] = halves;
    sum.add(&other);
    failures.extend(others);
    println!("{count} schedules in {:?}: {sum:?}", started.elapsed());
    assert_none(&failures);
}

#[test]
#[ignore = "plays the schedule SRNIC_MODEL_SEED"]
fn replay() {
    let seed = number("SRNIC_MODEL_SEED").expect("SRNIC_MODEL_SEED is a number");
    let schedule = Schedule::draw(seed);
    println!("{schedule:#?}");
    match World::new(&schedule, None).verbose().run() {
        Ok(stats) => println!("{stats:#?}"),
        Err(failure) => panic!("{failure}"),
    }
}
