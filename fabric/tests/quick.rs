//! A quick run of Figure 12 has the same hash in every build and on every machine. Whoever changes
//! what the engine sends, or when, changes those of the engine, and writes the new ones here.

use srnic_fabric::clock::Ps;
use srnic_fabric::plan::Plan;
use srnic_fabric::scheme::Scheme;
use srnic_fabric::topology::FatTree;

const HASHES: [(Scheme, &str); 4] = [
    (Scheme::Srnic, "b2f69b2f535185ce"),
    (Scheme::Irn, "d153803c66f685e9"),
    (Scheme::IrnDctcp, "47e13245b692e3ee"),
    (Scheme::Cx6, "8998e69355cff3f6"),
];

#[test]
fn a_quick_run_has_its_hashes() {
    let tree = FatTree::of_hosts(64).expect("a size of the figure");
    let hash = |(scheme, _)| {
        let plan = Plan { time: Ps::from_ns(100_000), warm_up: Ps(0), ..Plan::new(scheme, tree) };
        let row = plan.row().expect("runs");
        assert_eq!((row.summary.unfinished, row.summary.failed), (0, 0), "{}", scheme.name());
        (scheme, format!("{:016x}", row.hash))
    };
    let hashes = HASHES.map(hash);
    assert_eq!(hashes, HASHES.map(|(scheme, hash)| (scheme, hash.to_owned())));
}
