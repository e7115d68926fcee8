use super::*;
use crate::hostping::finding::Level;
use std::net::{IpAddr, Ipv4Addr};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));

/// Nanoseconds that each part takes; a probe takes the sum.
fn usual(part: Part) -> f64 {
    match part {
        Part::Cpu(_) => 400.0,
        Part::Memory(Memory::Ordinary) => 330.0,
        Part::Memory(Memory::Huge) => 300.0,
        Part::Device => 500.0,
        Part::Peer(_) => 1500.0,
    }
}

fn paths() -> Vec<Path> {
    let mut paths = Vec::new();
    for cpu in 0..3 {
        for memory in [Memory::Ordinary, Memory::Huge] {
            paths.extend([None, Some(PEER)].map(|peer| Path { cpu, memory, peer }));
        }
    }
    paths
}

/// What is measured while a part is slower by so much, with noise of up to a twentieth.
fn measure(slow: &[Part], by_ns: f64, round: usize) -> Vec<Outcome> {
    let noise =
        |index: usize| 1.0 + 0.05 * f64::from(u8::try_from((index * 7 + round * 3) % 11).unwrap_or(0)) / 11.0;
    let of = |(index, path): (usize, Path)| {
        let parts = path.parts();
        let delay =
            f64::from(u8::try_from(parts.iter().filter(|part| slow.contains(part)).count()).unwrap_or(0))
                * by_ns;
        let latency_ns = (parts.into_iter().map(usual).sum::<f64>() + delay) * noise(index);
        (path, Some(Measured { latency_ns, gbps: 80.0 }))
    };
    paths().into_iter().enumerate().map(of).collect()
}

fn baseline() -> Baseline {
    Baseline::of_probes(&[measure(&[], 0.0, 0)])
}

fn blamed(probes: &[Outcome]) -> Vec<String> {
    let found = judge(&rows(probes, &baseline()), &mut History::default());
    found.into_iter().filter(|finding| finding.level >= Level::Warning).map(|finding| finding.name).collect()
}

#[test]
fn twenty_idle_rounds_raise_no_alarm() {
    let mut history = History::default();
    for round in 0..20 {
        let found = judge(&rows(&measure(&[], 0.0, round), &baseline()), &mut history);
        assert!(found.iter().all(|finding| finding.level == Level::Good), "{found:?}");
    }
}

#[test]
fn a_part_that_is_delayed_is_blamed_and_no_other() {
    let parts = [Part::Cpu(1), Part::Memory(Memory::Ordinary), Part::Device, Part::Peer(PEER)];
    for part in parts {
        assert_eq!(blamed(&measure(&[part], 2000.0, 1)), [part.to_string()]);
    }
    assert_eq!(blamed(&measure(&[Part::Cpu(1)], 20.0, 1)), [""; 0], "a fifth is tolerated");
}

#[test]
fn two_parts_that_are_delayed_are_both_blamed() {
    let slow = [Part::Cpu(2), Part::Peer(PEER)];
    assert_eq!(blamed(&measure(&slow, 2000.0, 1)), ["CPU 2", "peer 10.77.0.1"]);
}

/// Without a baseline the best probe of the kind says what is usual.
#[test]
fn a_slow_core_is_found_without_a_baseline() {
    let none = Baseline::default();
    let found = judge(&rows(&measure(&[Part::Cpu(0)], 2000.0, 1), &none), &mut History::default());
    let cpu = &found[0];
    assert_eq!((cpu.name.as_str(), cpu.level), ("CPU 0", Level::Bad));
    assert!(cpu.words.starts_with("slow on all of 4 probes: "), "{cpu:?}");
    assert!(cpu.remedy.is_some());
}

#[test]
fn bandwidth_alone_is_enough() {
    let mut probes = measure(&[], 0.0, 1);
    for (path, measured) in &mut probes {
        if path.memory == Memory::Huge {
            measured.as_mut().expect("an answer").gbps = 60.0;
        }
    }
    assert_eq!(blamed(&probes), ["huge pages"]);
}

/// One bad probe of good parts is none of them; three such rounds are told.
#[test]
fn a_probe_that_fails_alone_is_gray_and_in_the_end_flapping() {
    let mut history = History::default();
    let mut probes = measure(&[], 0.0, 1);
    probes[0].1.as_mut().expect("an answer").latency_ns *= 3.0;
    let levels: Vec<Level> = (0..3)
        .map(|_| judge(&rows(&probes, &baseline()), &mut history).iter().map(|finding| finding.level).max())
        .map(|level| level.expect("parts"))
        .collect();
    assert_eq!(levels, [Level::Warning, Level::Warning, Level::Bad]);
}

/// Nobody answers at the peer: with a baseline or without, it is to blame and nothing else is.
#[test]
fn a_peer_that_does_not_answer_is_bad() {
    let mut probes = measure(&[], 0.0, 1);
    probes.iter_mut().filter(|(path, _)| path.peer.is_some()).for_each(|(_, measured)| *measured = None);
    for usual in [baseline(), Baseline::default()] {
        let found = judge(&rows(&probes, &usual), &mut History::default());
        let bad: Vec<&Finding> = found.iter().filter(|finding| finding.level != Level::Good).collect();
        let [peer] = bad.as_slice() else { panic!("{found:?}") };
        assert_eq!((peer.name.as_str(), peer.level), ("peer 10.77.0.1", Level::Bad));
        assert_eq!(peer.words, "no answer to 6 of 6 probes");
        assert!(peer.remedy.as_ref().is_some_and(|remedy| remedy.contains("--answer")), "{peer:?}");
    }
}

#[test]
fn what_a_baseline_does_not_have_is_told() {
    let mut probes = measure(&[], 0.0, 0);
    let all = rows(&probes, &baseline());
    assert_eq!(missing(&all, &baseline()), None);
    let gone = probes.pop().expect("a probe").0;
    let told = missing(&all, &Baseline::of_probes(&[probes])).expect("one is not there");
    assert!(told.level == Level::Warning && told.words.contains(&gone.to_string()), "{told:?}");
}
