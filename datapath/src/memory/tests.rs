use super::*;
use crate::seed::{Purpose, Seed};
use std::sync::Arc;

const PD: ProtectionDomainId = ProtectionDomainId(1);
const RW: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE);

fn table_with(len: usize, iova: u64, access: Access) -> (MemoryTable, MemoryKey) {
    let mut table = MemoryTable::new(4, 7.into());
    let key = table.register(PD, Arc::new(HeapBacking::new(len)), iova, access).unwrap();
    (table, key)
}

#[test]
fn copies_land_where_they_should_for_every_alignment_and_length() {
    let (table, key) = table_with(256, 0x1000, RW);
    for start in 0..16u64 {
        for len in 0..64u8 {
            let data: Vec<u8> = (1..=len).collect();
            let whole = table.check(key.0, PD, 0x1000, 256, RW).unwrap();
            whole.write(&[0xee; 256]);
            table.check(key.0, PD, 0x1000 + 16 + start, u64::from(len), RW).unwrap().write(&data);
            let mut seen = [0; 256];
            whole.read(&mut seen);
            let at = usize::try_from(16 + start).unwrap();
            assert_eq!(&seen[at..at + data.len()], &data[..]);
            assert!(seen[..at].iter().chain(&seen[at + data.len()..]).all(|byte| *byte == 0xee));
        }
    }
}

#[test]
fn long_copies_land_where_they_should_for_every_alignment() {
    const ROOM: usize = 8192;
    let (table, key) = table_with(ROOM, 0, RW);
    let at = |start: usize, len: usize| table.check(key.0, PD, start as u64, len as u64, RW).unwrap();
    let source: Vec<u8> = (0..251).cycle().take(ROOM).collect();
    for shift in 0..64 {
        for len in [2047, 2048, 2049, 2063, 2175, 2176, 2177, 4088, 4096, 4111] {
            let (start, from) = (1024 + shift, 7 * shift);
            let data = &source[from..from + len];
            at(0, ROOM).write(&[0xEE; ROOM]);
            at(start, len).write(data);
            let mut seen = [0; ROOM];
            at(0, ROOM).read(&mut seen);
            assert_eq!(&seen[start..start + len], data, "{len} bytes at {start}");
            assert!(seen[..start].iter().chain(&seen[start + len..]).all(|byte| *byte == 0xEE));
            let mut part = [0xDD; ROOM];
            at(start, len).read(&mut part[from..from + len]);
            assert_eq!(&part[from..from + len], data, "{len} bytes from {start}");
            assert!(part[..from].iter().chain(&part[from + len..]).all(|byte| *byte == 0xDD));
        }
    }
}

#[test]
fn ranges_outside_or_wrapping_are_refused() {
    let (table, key) = table_with(100, 0x1000, RW);
    let check = |va, len| table.check(key.0, PD, va, len, RW).map(|mapped| mapped.len());
    assert_eq!(check(0x1000, 100), Ok(100));
    assert_eq!(check(0x1063, 1), Ok(1));
    for (va, len) in [(0xfff, 1), (0xfff, 101), (0x1000, 101), (0x1064, 1), (u64::MAX, 1), (0x1001, u64::MAX)]
    {
        assert!(matches!(check(va, len), Err(AccessError::Range { .. })), "{va:#x} + {len}");
    }
    assert_eq!(check(u64::MAX, 0), Ok(0), "zero length validates nothing");
}

#[test]
fn keys_domains_and_permissions_are_checked() {
    let (mut table, key) = table_with(8, 0, Access::REMOTE_READ);
    assert!(matches!(table.check(key.0, PD, 0, 8, RW), Err(AccessError::Permission { .. })));
    let other = ProtectionDomainId(2);
    let read = Access::REMOTE_READ;
    assert!(matches!(table.check(key.0, other, 0, 8, read), Err(AccessError::ProtectionDomain { .. })));
    assert!(matches!(table.check(key.0 ^ 1, PD, 0, 8, read), Err(AccessError::UnknownKey { .. })));
    assert!(matches!(table.check(u32::MAX, PD, 0, 8, read), Err(AccessError::UnknownKey { .. })));
    assert!(table.deregister(key));
    assert!(!table.deregister(key), "a key ends once");
    let again = table.register(PD, Arc::new(HeapBacking::new(8)), 0, read).unwrap();
    assert_ne!(again, key, "a reused entry gets another key");
    assert!(table.check(key.0, PD, 0, 8, read).is_err());
}

#[test]
fn registration_refuses_what_cannot_be() {
    let mut table = MemoryTable::new(1, 7.into());
    let backing = || Arc::new(HeapBacking::new(8));
    let refused = table.register(PD, backing(), 0, Access::REMOTE_WRITE);
    assert_eq!(refused, Err(RegisterError::InconsistentAccess(Access::REMOTE_WRITE)));
    assert!(matches!(table.register(PD, backing(), u64::MAX, RW), Err(RegisterError::Wraps { .. })));
    table.register(PD, backing(), 0, RW).unwrap();
    assert_eq!(table.register(PD, backing(), 0, RW), Err(MemoryTableFull { capacity: 1 }.into()));
    assert_eq!(table.len(), 1);
}

#[test]
fn keys_cannot_be_counted_and_are_never_zero_nor_used_twice_in_a_row() {
    let draw = |seed| {
        let mut table = MemoryTable::new(4096, Seed::from(seed));
        let register = |_| table.register(PD, Arc::new(HeapBacking::new(8)), 0, RW).unwrap().0;
        (0..4096).map(register).collect::<Vec<_>>()
    };
    let keys = draw(1);
    assert_ne!(keys, draw(2));
    assert_eq!(keys, draw(1), "the same seed, the same keys");
    let steps: std::collections::HashSet<_> =
        keys.windows(2).map(|two| two[1].wrapping_sub(two[0])).collect();
    assert!(steps.len() > 3500, "only {} steps between 4096 keys", steps.len());
    assert!(keys.iter().all(|key| key & 0xFF != 0));
    let mut table = MemoryTable::new(1, 3.into());
    let mut last = MemoryKey(0);
    for _ in 0..2000 {
        let key = table.register(PD, Arc::new(HeapBacking::new(8)), 0, RW).unwrap();
        assert_ne!(key, last);
        assert!(table.deregister(key));
        last = key;
    }
}

/// What a peer sees of an engine when it connects: first PSNs.
fn psns(seed: Seed) -> [u32; 4] {
    let mut numbers = seed.numbers(Purpose::Psns);
    [(); 4].map(|()| numbers.next_u32() & 0x00FF_FFFF)
}

/// Of seeds that are few enough to try each, the one with these first PSNs.
fn solve(seen: [u32; 4]) -> Option<Seed> {
    (0..1 << 16).map(|number: u64| number.into()).find(|seed| psns(*seed) == seen)
}

/// The first keys of an engine whose keys come from that seed.
fn keys(seed: Seed) -> [u32; 8] {
    let mut table = MemoryTable::new(4096, seed);
    [(); 8].map(|()| table.register(PD, Arc::new(HeapBacking::new(8)), 0, RW).unwrap().0)
}

#[test]
fn who_solves_for_the_seed_of_psns_does_not_know_a_key() {
    let (seed, key_seed) = (Seed::from(0xBEEF), Seed::from(0x1_2345_6789));
    let solved = solve(psns(seed)).expect("the seed of the PSNs is one of few");
    assert_eq!(solved, seed, "the solver works");
    let (guesses, granted) = (keys(solved), keys(key_seed));
    assert!(granted.iter().all(|key| !guesses.contains(key)), "{guesses:x?} and {granted:x?}");
    // The one mistake that there is to make: one seed for both.
    assert_eq!(guesses, keys(seed));
}

#[test]
fn numbers_of_one_purpose_are_none_of_another() {
    let draw = |purpose| {
        let mut numbers = Seed::from(7).numbers(purpose);
        [(); 64].map(|()| numbers.next_u32())
    };
    let (keys, qpns, psns) = (draw(Purpose::Keys), draw(Purpose::Qpns), draw(Purpose::Psns));
    assert!(qpns.iter().chain(&psns).all(|number| !keys.contains(number)));
    assert!(qpns.iter().all(|number| !psns.contains(number)));
    assert_eq!(format!("{:?}", Seed::from(7)), "Seed(..)");
}

#[test]
fn a_key_that_ended_is_not_the_next_one_after_a_change_that_was_refused() {
    for seed in 0..4096 {
        let mut table = MemoryTable::new(1, Seed::from(seed));
        let backing = || Arc::new(HeapBacking::new(64));
        let ended = table.register(PD, backing(), 0x1000, RW).unwrap();
        let refused = table.reregister(ended, None, None, Some(Access::REMOTE_WRITE));
        assert!(refused.is_err());
        assert!(table.deregister(ended));
        let next = table.register(PD, backing(), 0x1000, RW).unwrap();
        assert_ne!(next, ended, "seed {seed}: who has the key that ended may write to the next region");
    }
}
