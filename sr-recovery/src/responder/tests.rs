//! Exact cases of filling; random ones are in `tests/`.

use wire::Psn;

use super::{Arrivals, Filled};
use crate::contexts::Context;

fn psn(position: u32) -> Psn {
    Psn::new(0xFF_FFFE).add(position)
}

fn arrivals() -> Arrivals {
    let mut arrivals = Arrivals::new(64);
    arrivals.reset(psn(0));
    arrivals
}

fn fill(arrivals: &mut Arrivals, first: u32, last: u32) -> Filled {
    arrivals.fill(psn(first), psn(last), psn(0), &mut 0)
}

#[test]
fn advances_over_all_that_has_arrived() {
    let mut arrivals = arrivals();
    assert_eq!(fill(&mut arrivals, 1, 3), Filled::Waiting);
    assert_eq!(fill(&mut arrivals, 5, 6), Filled::Waiting);
    assert_eq!(fill(&mut arrivals, 0, 0), Filled::Advanced { epsn: psn(4), bitmap: 0b011 });
    assert_eq!(fill(&mut arrivals, 4, 4), Filled::Advanced { epsn: psn(7), bitmap: 0 });
}

#[test]
fn ignores_what_is_below_the_base() {
    let mut arrivals = arrivals();
    assert_eq!(fill(&mut arrivals, 0, 9), Filled::Advanced { epsn: psn(10), bitmap: 0 });
    assert_eq!(fill(&mut arrivals, 0, 9), Filled::Waiting);
    assert_eq!(fill(&mut arrivals, 8, 10), Filled::Advanced { epsn: psn(11), bitmap: 0 });
    assert_eq!(arrivals.reach(psn(10)), 0);
    assert_eq!(arrivals.reach(psn(11)), 1);
}

#[test]
fn shows_64_packets_above_the_base() {
    let mut arrivals = Arrivals::new(200);
    arrivals.reset(psn(0));
    assert_eq!(fill(&mut arrivals, 2, 2), Filled::Waiting);
    assert_eq!(fill(&mut arrivals, 65, 66), Filled::Waiting);
    assert_eq!(fill(&mut arrivals, 0, 0), Filled::Advanced { epsn: psn(1), bitmap: 1 | 1 << 63 });
}

#[test]
fn follows_a_fast_path_that_is_ahead() {
    let mut arrivals = arrivals();
    assert_eq!(
        arrivals.fill(psn(8), psn(9), psn(5), &mut 0),
        Filled::Advanced { epsn: psn(5), bitmap: 0b1100 }
    );
    assert_eq!(
        arrivals.fill(psn(12), psn(12), psn(8), &mut 0),
        Filled::Advanced { epsn: psn(10), bitmap: 0b10 }
    );
}
