//! Serial numbers: a four-bit model checked exhaustively, and the wire's own widths across their
//! wrap.

use wire::{Msn, Psn, Serial, Ssn};

type Small = Serial<4>;
const SIZE: i32 = 16;

fn all() -> impl Iterator<Item = (i32, Small)> {
    (0..SIZE).map(|n| (n, Small::new(n.cast_unsigned())))
}

/// The representative of `n` modulo 16 in -8..8, the slow way.
fn centred(n: i32) -> i32 {
    (-SIZE / 2..SIZE / 2).find(|candidate| (candidate - n).rem_euclid(SIZE) == 0).unwrap()
}

#[test]
fn every_pair_of_the_small_model() {
    for (a, x) in all() {
        for (b, y) in all() {
            let difference = centred(a - b);
            assert_eq!(x.distance_from(y), difference, "{a} - {b}");
            assert_eq!(x.is_before(y), difference < 0, "{a} before {b}");
            assert_eq!(i64::from(x.steps_from(y)), i64::from((a - b).rem_euclid(SIZE)), "{b} to {a}");
            assert_eq!(y.add(x.steps_from(y)), x);
            assert_eq!(x == y, a == b);
        }
    }
}

#[test]
fn every_step_of_the_small_model() {
    for (a, x) in all() {
        assert_eq!(x.next().get().cast_signed(), (a + 1).rem_euclid(SIZE));
        assert_eq!(x.prev().get().cast_signed(), (a - 1).rem_euclid(SIZE));
        for n in 0..3 * SIZE {
            assert_eq!(x.add(n.cast_unsigned()).get().cast_signed(), (a + n).rem_euclid(SIZE));
            assert_eq!(x.sub(n.cast_unsigned()).get().cast_signed(), (a - n).rem_euclid(SIZE));
        }
    }
    for n in 0..256 {
        assert_eq!(Small::new(n).get(), n % 16, "only the low bits count");
    }
}

/// Of two different numbers exactly one is before the other, except at half the circle, where each
/// is before the other: windows stay below half for that reason.
#[test]
fn before_is_a_strict_order_within_half_the_circle() {
    for (a, x) in all() {
        for (b, y) in all() {
            let both = (x.is_before(y), y.is_before(x));
            match centred(a - b).abs() {
                0 => assert_eq!(both, (false, false)),
                8 => assert_eq!(both, (true, true)),
                _ => assert!(both.0 != both.1, "{a} {b}"),
            }
        }
    }
}

#[track_caller]
fn walk_across_the_wrap<const BITS: u32>() {
    let origin = Serial::<BITS>::new(Serial::<BITS>::MASK - 15);
    let mut here = origin;
    for n in 0..64 {
        assert_eq!(here.get(), (origin.get() + n) & Serial::<BITS>::MASK);
        assert_eq!(here, origin.add(n));
        assert_eq!(here.sub(n), origin);
        assert_eq!(here.steps_from(origin), n);
        assert_eq!(here.distance_from(origin), n.cast_signed());
        assert_eq!(origin.distance_from(here), -n.cast_signed());
        assert_eq!(origin.is_before(here), n > 0);
        assert_eq!(here.next().prev(), here);
        here = here.next();
    }
}

#[test]
fn psn_msn_and_ssn_cross_their_wrap() {
    assert_eq!(Psn::MASK - 15, 0x00FF_FFF0);
    walk_across_the_wrap::<24>();
    walk_across_the_wrap::<16>();
    assert_eq!((Psn::MASK, Ssn::MASK, Msn::MASK), (0x00FF_FFFF, 0x00FF_FFFF, 0xFFFF));
}

#[test]
fn the_far_ends_of_a_psn_window() {
    let psn = Psn::new(0x00FF_FFF0);
    let half = 1 << 23;
    assert_eq!(psn.add(half - 1).distance_from(psn), 0x7F_FFFF);
    assert_eq!(psn.add(half).distance_from(psn), -0x80_0000);
    assert!(psn.is_before(psn.add(half - 1)));
    assert!(!psn.is_before(psn.sub(half - 1)));
    assert_eq!(Psn::new(u32::MAX), Psn::new(0x00FF_FFFF));
    assert_eq!(format!("{psn} {psn:?}"), "16777200 16777200");
}
