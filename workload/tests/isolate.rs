//! Attackers by victims: with tenants each victim keeps enough, and without them many do not.

use srnic_workload::isolate::{AIM, Matrix, Pair, Side, run};
use std::time::Instant;

const EACH: usize = 2;

fn matrix(attackers: &[&str], victims: &[&str], time_us: u32) -> Matrix {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let matrix = Matrix::standard().only(&names(attackers), &names(victims)).expect("they are there");
    Matrix { time_us, ..matrix }
}

fn pairs(matrix: &Matrix) -> Vec<Pair> {
    matrix.pairs(&run(matrix, &matrix.tasks(), EACH, |_| true))
}

fn told(pairs: &[Pair], with: usize) -> String {
    let lines = pairs.iter().filter(|pair| !pair.holds()[with]);
    lines.map(|p| format!("{} beside {}: {:.3?} {:?}\n", p.victim, p.attacker, p.kept(), p.reason)).collect()
}

/// Some of them, in seconds: `srnic isolate` plays all.
#[test]
fn victims_keep_their_share_with_tenants_and_not_without() {
    let matrix = matrix(&["bulk", "tiny", "reordering"], &["write-64K", "send-4K", "read-8"], 300);
    let pairs = pairs(&matrix);
    assert_eq!(pairs.len(), 9);
    assert!(pairs.iter().all(|pair| pair.holds()[1]), "{}", told(&pairs, 1));
    let failed = pairs.iter().filter(|pair| !pair.holds()[0]).count();
    assert!(failed >= 3, "without tenants only {failed} of 9 fail: the attackers are too weak");
}

/// An attacker's cap holds for what its peers refuse, too: the host hears each refusal.
#[test]
fn refusals_take_no_time_from_victims() {
    let matrix = matrix(&["not-ready"], &["write-4K"], 300);
    let pairs = pairs(&matrix);
    assert!(pairs[0].holds()[1] && !pairs[0].holds()[0], "{:.3?}", pairs[0].kept());
}

/// Connecting again and again, and packets that nobody takes, cost time of the host.
#[test]
fn control_calls_above_a_cap_take_no_time_from_victims() {
    let capped = matrix(&["errors"], &["read-8"], 100);
    let mut uncapped = capped.clone();
    uncapped.policy.tenant.iter_mut().for_each(|tenant| tenant.control_per_s = 0);
    let kept = |matrix: &Matrix| pairs(matrix)[0].kept()[1];
    let (with, without) = (kept(&capped), kept(&uncapped));
    println!("read-8 beside errors keeps {with:.3}, without caps on control calls {without:.3}");
    assert!(with >= AIM && without < with - 0.05, "{with} and {without}");
}

/// As `srnic isolate --time 300` plays it, attacker by attacker.
#[test]
#[ignore = "the whole matrix: minutes"]
fn every_victim_keeps_its_share_beside_every_attacker() {
    let mut all = Vec::new();
    for Side { name, .. } in Matrix::standard().attacker {
        let start = Instant::now();
        let pairs = pairs(&matrix(&[&name], &[], 300));
        for pair in &pairs {
            println!("{} beside {name}: {:.3?}", pair.victim, pair.kept());
        }
        println!("{name}: {:.0?}", start.elapsed());
        all.extend(pairs);
    }
    assert!(all.iter().all(|pair| pair.holds()[1]), "{}", told(&all, 1));
    assert!(all.iter().filter(|pair| !pair.holds()[0]).count() >= 30, "the attackers are too weak");
}

#[test]
fn threads_change_nothing_and_an_end_leaves_whole_pairs() {
    let matrix = matrix(&["bulk", "control"], &["write-8"], 20);
    let tasks = matrix.tasks();
    let all = run(&matrix, &tasks, 1, |_| true);
    assert_eq!(all.len(), 5);
    assert_eq!(run(&matrix, &tasks, 4, |_| true), all);
    let some = run(&matrix, &tasks, 1, |done| done < 3);
    assert_eq!(some, all[..3]);
    let told = matrix.pairs(&some);
    assert_eq!(told.iter().map(|pair| pair.attacker.as_str()).collect::<Vec<_>>(), ["bulk"]);
}
