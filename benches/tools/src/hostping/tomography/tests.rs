use super::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

const TOPOLOGIES: u64 = 1000;

/// Ports behind switches, memories and cores: each probe crosses one of each, as on a host.
struct Topology {
    /// Prober and links of each probe.
    paths: Vec<(usize, Vec<usize>)>,
    links: usize,
}

impl Topology {
    fn new(random: &mut Xoshiro256PlusPlus) -> Self {
        let [switches, ports, memories, cores] =
            [below(random, 3), below(random, 6), below(random, 4), below(random, 6)].map(|most| most + 1);
        let behind: Vec<usize> = (0..ports).map(|_| below(random, switches)).collect();
        let mut paths = Vec::new();
        for (port, switch) in behind.iter().enumerate() {
            for memory in 0..memories {
                for core in 0..cores {
                    // Not everything can be probed everywhere.
                    if below(random, 10) > 0 {
                        let first = switches;
                        let path =
                            [*switch, first + port, first + ports + memory, first + ports + memories + core];
                        paths.push((port, path.to_vec()));
                    }
                }
            }
        }
        Self { paths, links: switches + ports + memories + cores }
    }

    fn crossed(&self, link: usize) -> BTreeSet<usize> {
        let crossing = self.paths.iter().enumerate().filter(|(_, (_, links))| links.contains(&link));
        crossing.map(|(index, _)| index).collect()
    }

    fn seen(&self) -> Vec<usize> {
        (0..self.links).filter(|link| !self.crossed(*link).is_empty()).collect()
    }

    fn probers(&self, link: usize) -> usize {
        self.crossed(link).iter().map(|path| self.paths[*path].0).collect::<BTreeSet<_>>().len()
    }

    /// What is seen while `faults` are bad.
    fn probe(&self, faults: &[usize]) -> Vec<Probe> {
        let probe = |(prober, links): &(usize, Vec<usize>)| Probe {
            prober: *prober,
            links: links.clone(),
            good: !links.iter().any(|link| faults.contains(link)),
        };
        self.paths.iter().map(probe).collect()
    }
}

fn below(random: &mut Xoshiro256PlusPlus, most: usize) -> usize {
    usize::try_from(random.next_u64() % most as u64).expect("it is below a usize")
}

fn topologies() -> impl Iterator<Item = (Topology, Xoshiro256PlusPlus)> {
    (0..TOPOLOGIES).map(|seed| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        (Topology::new(&mut random), random)
    })
}

fn bad(verdicts: &[Verdict]) -> BTreeSet<usize> {
    let bad = verdicts.iter().enumerate().filter(|(_, verdict)| matches!(verdict, Verdict::Bad { .. }));
    bad.map(|(link, _)| link).collect()
}

/// What cannot be told apart is blamed together, so the answer is exact in any topology.
#[test]
fn one_fault_is_found_in_a_thousand_random_topologies() {
    let mut separable = 0;
    for (topology, mut random) in topologies() {
        let seen = topology.seen();
        if seen.is_empty() {
            continue;
        }
        let fault = seen[below(&mut random, seen.len())];
        let twins: BTreeSet<usize> =
            seen.into_iter().filter(|link| topology.crossed(*link) == topology.crossed(fault)).collect();
        separable += u32::from(twins.len() == 1);
        let verdicts = blame(&topology.probe(&[fault]), topology.links);
        assert_eq!(bad(&verdicts), twins, "{fault}");
        assert!(!verdicts.contains(&Verdict::Gray));
    }
    assert!(separable > 500, "most faults stand for themselves: {separable}");
}

#[test]
fn nothing_is_blamed_where_nothing_is_bad() {
    for (topology, _) in topologies() {
        let verdicts = blame(&topology.probe(&[]), topology.links);
        assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Good | Verdict::Unseen)));
    }
}

/// They are told apart if every other part is on a good path, and neither hides the other.
#[test]
fn two_faults_are_found_and_the_one_that_more_probers_blame_comes_first() {
    let mut tried = 0;
    for (topology, mut random) in topologies() {
        let seen = topology.seen();
        if seen.len() < 2 {
            continue;
        }
        let (one, two) = (seen[below(&mut random, seen.len())], seen[below(&mut random, seen.len())]);
        let (first, second) = (topology.crossed(one), topology.crossed(two));
        let union: BTreeSet<usize> = first.union(&second).copied().collect();
        let hidden = first.is_subset(&second) || second.is_subset(&first);
        let others = seen.iter().filter(|link| **link != one && **link != two);
        if hidden || others.clone().any(|link| topology.crossed(*link).is_subset(&union)) {
            continue;
        }
        tried += 1;
        let verdicts = blame(&topology.probe(&[one, two]), topology.links);
        assert_eq!(bad(&verdicts), BTreeSet::from([one, two]));
        let rank = |link: usize| match verdicts[link] {
            Verdict::Bad { rank, probers } => (rank, probers),
            other => panic!("{other:?}"),
        };
        assert_eq!(rank(one).1, topology.probers(one));
        if topology.probers(one) > topology.probers(two) {
            assert!(rank(one).0 < rank(two).0);
        }
    }
    assert!(tried > 200, "{tried}");
}

/// The gray test as the paper's listing nests it: inside the loop over links that are on no good
/// path, where "all links of this path are on good paths" cannot hold.
fn gray_as_listed(probes: &[Probe], links: usize) -> BTreeSet<usize> {
    let good = crossed_by(probes.iter().filter(|probe| probe.good), links);
    let mut gray = BTreeSet::new();
    for probe in probes.iter().filter(|probe| !probe.good) {
        for _ in probe.links.iter().filter(|link| !good[**link]) {
            if probe.links.iter().all(|link| good[*link]) {
                gray.extend(probe.links.iter().copied());
            }
        }
    }
    gray
}

#[test]
fn a_bad_path_of_good_parts_is_gray_which_the_listing_never_finds() {
    let mut found = 0;
    for (topology, mut random) in topologies() {
        let mut probes = topology.probe(&[]);
        if probes.is_empty() {
            continue;
        }
        let chosen = below(&mut random, probes.len());
        probes[chosen].good = false;
        let verdicts = blame(&probes, topology.links);
        let path = &probes[chosen].links;
        let contradicted = path.iter().all(|link| topology.crossed(*link).len() > 1);
        for (link, verdict) in verdicts.iter().enumerate() {
            assert_eq!(*verdict == Verdict::Gray, contradicted && path.contains(&link));
        }
        found += u32::from(contradicted);
        assert_eq!(gray_as_listed(&probes, topology.links), BTreeSet::new());
    }
    assert!(found > 500, "{found}");
}

#[test]
fn three_grays_in_a_row_are_flapping_and_a_good_round_ends_them() {
    let mut history = History::default();
    let gray = [Verdict::Good, Verdict::Gray];
    for round in 1..=3 {
        history.note(&gray);
        assert_eq!((history.is_flapping(0), history.is_flapping(1)), (false, round == 3));
    }
    history.note(&[Verdict::Good, Verdict::Good]);
    history.note(&gray);
    assert!(!history.is_flapping(1) && !history.is_flapping(7));
}

#[test]
fn links_that_there_are_not_are_passed_over() {
    let probes = [Probe { prober: 0, links: vec![0, 9], good: false }];
    assert_eq!(blame(&probes, 2), [Verdict::Bad { rank: 0, probers: 1 }, Verdict::Unseen]);
}
