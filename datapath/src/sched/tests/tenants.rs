//! What holds of tenants: nobody is lost, doubled or starved, a cap holds, and who is parked comes
//! back.

use crate::sched::*;
use crate::time::Time;
use proptest::prelude::*;

const SLOTS: u32 = 8;
const TENANTS: u16 = 4;

fn attributes() -> impl Strategy<Value = TenantAttr> {
    let cap = prop_oneof![2 => Just(0), 1 => 1_000_000..20_000_000_000_u64];
    (1..=TENANT_WEIGHT_MAX, 0..TenantClass::ALL.len(), cap.clone(), cap).prop_map(
        |(weight, class, bytes_per_s, operations_per_s)| TenantAttr {
            weight,
            class: TenantClass::ALL[class],
            tx: TenantCaps { bytes_per_s, operations_per_s },
            ..TenantAttr::default()
        },
    )
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Wake(u32),
    /// Somebody's turn: packets, their length, how it ends, and the time that passes before it.
    Scheduled {
        packets: usize,
        len: usize,
        end: u8,
        gap_ns: u64,
    },
    Set(u16, TenantAttr),
    /// A queue pair ended, and the next in its slot is another tenant's.
    Assign(u32, u16),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..SLOTS).prop_map(Op::Wake),
        6 => (0..=16_usize, 0..=1024_usize, 0..4_u8, 0..20_000_u64)
            .prop_map(|(packets, len, end, gap_ns)| Op::Scheduled { packets, len, end, gap_ns }),
        1 => (0..TENANTS, attributes()).prop_map(|(tenant, attr)| Op::Set(tenant, attr)),
        1 => (0..SLOTS, 0..TENANTS).prop_map(|(slot, tenant)| Op::Assign(slot, tenant)),
    ]
}

/// The default tenant and three others, with two slots each.
fn mux() -> EventMux {
    let mut mux = EventMux::new(&SchedulerConfig::RoundRobin, SLOTS as usize);
    let tenants = mux.begin_tenants(&CostTable::default()).expect("round robin");
    assert!((1..TENANTS).all(|_| tenants.create(TenantAttr::default()).is_some()));
    (0..SLOTS).for_each(|slot| tenants.assign(slot, TenantId((slot % 4) as u16)));
    mux
}

fn turn_of(mux: &mut EventMux, flags: &mut [SchedFlags], now: Time) -> Option<u32> {
    let turn = mux.next_ready(now)?;
    assert!(flags[turn.slot as usize].contains(SchedFlags::QUEUED), "slot {} was not queued", turn.slot);
    flags[turn.slot as usize].remove(SchedFlags::QUEUED);
    Some(turn.slot)
}

proptest! {
    #[test]
    fn the_ready_have_their_turn_once_and_nobody_else(ops in prop::collection::vec(op(), 1..400)) {
        let mut mux = mux();
        let mut flags = [SchedFlags::default(); SLOTS as usize];
        let mut now = Time::ZERO;
        for op in ops {
            match op {
                Op::Wake(slot) => mux.wake(slot, &mut flags[slot as usize], true),
                Op::Set(tenant, attr) => {
                    prop_assert!(mux.tenants_mut().expect("some").set(TenantId(tenant), attr));
                }
                Op::Assign(slot, tenant) => {
                    mux.tenants_mut().expect("some").assign(slot, TenantId(tenant));
                }
                Op::Scheduled { packets, len, end, gap_ns } => {
                    now = now.after(gap_ns);
                    let waiting = mux.waiting();
                    let Some(slot) = turn_of(&mut mux, &mut flags, now) else {
                        let queued = flags.iter().any(|flags| flags.contains(SchedFlags::QUEUED));
                        prop_assert_eq!(mux.waiting(), 0, "somebody waits, and nobody is next");
                        prop_assert_eq!(queued, mux.next_deadline().is_some(), "who is parked wakes");
                        continue;
                    };
                    prop_assert!(waiting > 0 || mux.waiting() < SLOTS as usize);
                    let operations = u32::try_from(packets.min(8)).expect("few");
                    let usage = Usage { bytes: packets * len, packets, operations, ..Usage::default() };
                    let flags = &mut flags[slot as usize];
                    match end {
                        0 => mux.settle(slot, flags, usage, false),
                        1 => mux.resume(slot, flags, usage),
                        _ => mux.settle(slot, flags, usage, true),
                    }
                }
            }
        }
        // All that are ready have a turn in the end, once each.
        let mut left = flags.iter().filter(|flags| flags.contains(SchedFlags::QUEUED)).count();
        while left > 0 {
            now = now.max(if mux.waiting() > 0 { now } else { mux.next_deadline().expect("parked") });
            if let Some(slot) = turn_of(&mut mux, &mut flags, now) {
                mux.settle(slot, &mut flags[slot as usize], Usage::default(), false);
                left -= 1;
            }
        }
        prop_assert_eq!((mux.waiting(), mux.next_ready(Time(u64::MAX / 2))), (0, None));
    }

    /// Everybody is always ready: nobody waits longer than the shares of the others explain.
    #[test]
    fn nobody_starves(weights in prop::array::uniform4(1..=64_u16), lens in prop::array::uniform8(0..=1024_usize)) {
        let mut mux = mux();
        let tenants = mux.tenants_mut().expect("some");
        for (tenant, weight) in weights.into_iter().enumerate() {
            let class = TenantClass::ALL[tenant % 3];
            let attr = TenantAttr { weight, class, ..TenantAttr::default() };
            prop_assert!(tenants.set(TenantId(u16::try_from(tenant).expect("few")), attr));
        }
        let mut flags = [SchedFlags::default(); SLOTS as usize];
        (0..SLOTS).for_each(|slot| mux.wake(slot, &mut flags[slot as usize], true));
        // A round has 16 turns at most for each weight, and a queue pair has every second of its
        // tenant's; a debt takes two rounds.
        let most = 4 * 17 * usize::from(weights.iter().sum::<u16>());
        let mut served_at = [0; SLOTS as usize];
        for turn in 1..20_000_usize {
            let slot = turn_of(&mut mux, &mut flags, Time::ZERO).expect("all are ready");
            let packets = 8;
            let usage = Usage { bytes: packets * lens[slot as usize], packets, ..Usage::default() };
            mux.settle(slot, &mut flags[slot as usize], usage, true);
            served_at[slot as usize] = turn;
            let longest = served_at.iter().map(|at| turn - at).max().expect("some");
            prop_assert!(longest <= most, "{} turns", longest);
        }
    }

    /// A cap holds over any time, but for what was saved, and gives all that it has.
    #[test]
    fn a_cap_holds(bytes_per_s in 1_000_000..10_000_000_000_u64, len in 1..=1024_usize, step_ns in 100..5_000_u64) {
        let mut mux = mux();
        let tx = TenantCaps { bytes_per_s, operations_per_s: 0 };
        let attr = TenantAttr { tx, ..TenantAttr::default() };
        prop_assert!(mux.tenants_mut().expect("some").set(TenantId(1), attr));
        let mut flags = [SchedFlags::default(); SLOTS as usize];
        mux.wake(1, &mut flags[1], true);
        let (mut now, mut sent, end) = (Time(1_000_000_000), 0_u64, Time(1_050_000_000));
        while now < end {
            match turn_of(&mut mux, &mut flags, now) {
                Some(slot) => {
                    let usage = Usage { bytes: 16 * len, packets: 16, ..Usage::default() };
                    sent += (16 * (len + 100)) as u64;
                    mux.settle(slot, &mut flags[1], usage, true);
                    now = now.after(step_ns);
                }
                None => now = now.max(mux.next_deadline().expect("it is parked")).after(1),
            }
        }
        let cap = bytes_per_s as f64 * 0.05;
        let saved = 4.0 * 16_384.0_f64 + bytes_per_s as f64 * 16.4e-6 + 2.0 * 17_984.0;
        prop_assert!(sent as f64 <= cap + saved, "{} of {}", sent, cap);
        let possible = (50_000_000 / step_ns * 16 * (len as u64 + 100)) as f64;
        prop_assert!(sent as f64 >= 0.98 * cap.min(0.98 * possible) - 20_000.0, "{} of {}", sent, cap);
    }
}

#[test]
fn what_is_ready_when_tenants_begin_keeps_its_place() {
    let mut mux = EventMux::new(&SchedulerConfig::RoundRobin, 3);
    let mut flags = [SchedFlags::default(); 3];
    [2, 0, 1].iter().for_each(|slot: &u32| mux.wake(*slot, &mut flags[*slot as usize], true));
    assert!(mux.begin_tenants(&CostTable::default()).is_some());
    assert_eq!(mux.waiting(), 3);
    let order: Vec<u32> = core::iter::from_fn(|| turn_of(&mut mux, &mut flags, Time::ZERO)).collect();
    assert_eq!(order, [2, 0, 1]);
    let mut weighted = EventMux::new(&SchedulerConfig::Weighted, 3);
    assert!(weighted.begin_tenants(&CostTable::default()).is_none());
}

/// Turns of a queue pair in 10 ms, each of eight small packets and operations, `atomics` of them
/// atomics, with a cap of a million operations a second; `refused` refusals follow each.
fn turns_at_a_cap(costs: CostTable, atomics: u32, refused: u32) -> u32 {
    let mut mux = EventMux::new(&SchedulerConfig::RoundRobin, 1);
    let tenants = mux.begin_tenants(&costs).expect("round robin");
    let tx = TenantCaps { bytes_per_s: 0, operations_per_s: 1_000_000 };
    assert!(tenants.set(TenantId::DEFAULT, TenantAttr { tx, ..TenantAttr::default() }));
    let mut flags = [SchedFlags::default()];
    mux.wake(0, &mut flags[0], true);
    let (mut now, mut count) = (Time(1_000_000), 0);
    while now < Time(11_000_000) {
        match turn_of(&mut mux, &mut flags, now) {
            Some(slot) => {
                count += 1;
                let usage = Usage { bytes: 64, packets: 8, operations: 8, atomics, reads: 0 };
                mux.settle(slot, &mut flags[0], usage, true);
                let tenants = mux.tenants_mut().expect("some");
                (0..refused).for_each(|_| tenants.charge_refusal(slot, now));
            }
            None => now = mux.next_deadline().expect("it is parked"),
        }
    }
    count
}

#[test]
fn an_operation_costs_what_the_table_says() {
    let turns = |costs: CostTable, atomics: u32| turns_at_a_cap(costs, atomics, 0);
    // 10,000 operations, eight a turn, and what was saved.
    let (writes, atomics) = (turns(CostTable::default(), 0), turns(CostTable::default(), 8));
    assert!((1_250..=1_260).contains(&writes), "{writes}");
    assert!((416..=424).contains(&atomics), "{atomics}");
    assert_eq!(turns(CostTable::EQUAL, 8), writes);
}

/// Packets that a peer refuses are paid for twice, as the refusals are to be heard; where packets
/// cost nothing, refusals do not either.
#[test]
fn refusals_count_on_the_cap_of_operations() {
    let packets = |costs: CostTable, refused: u32| 8 * turns_at_a_cap(costs, 0, refused);
    let by_packet = CostTable { write: 0, packet: 100, ..CostTable::EQUAL };
    let (none, all) = (packets(by_packet, 0), packets(by_packet, 8));
    assert!((10_000..=10_080).contains(&none), "{none}");
    assert!((5_000..=5_080).contains(&all), "{all}");
    assert_eq!(packets(CostTable::EQUAL, 8), none);
    // A flood of refusals is owed for no longer than a burst takes.
    let flooded = packets(by_packet, 100_000);
    assert!(flooded > 1_000, "{flooded}");
}

/// The default tenant with slot 0, and one that is classified with slot 1.
fn with_auto() -> (EventMux, TenantId) {
    let mut mux = EventMux::new(&SchedulerConfig::RoundRobin, 2);
    let tenants = mux.begin_tenants(&CostTable::default()).expect("round robin");
    let auto = TenantAttr { class: TenantClass::Auto, ..TenantAttr::default() };
    let id = tenants.create(auto).expect("there is room");
    tenants.assign(1, id);
    (mux, id)
}

/// Single small messages, many at once, large ones; each for more than 10 ms, and then it sends
/// otherwise.
#[test]
fn who_says_nothing_is_classified() {
    let (mut mux, id) = with_auto();
    assert_eq!(mux.tenants().expect("some").class_of(id), Some(TenantClass::Normal));
    let mut flags = [SchedFlags::default(); 2];
    let mut now = Time(1_000_000);
    let turn = |operations: u32, bytes: usize| Usage { bytes, packets: 8, operations, ..Usage::default() };
    for (messages, usage, class) in [
        (1, turn(1, 64), TenantClass::Latency),
        (5, turn(1, 1023), TenantClass::Latency),
        (6, turn(1, 64), TenantClass::Normal),
        (1, turn(8, 512), TenantClass::Normal),
        (1, turn(1, 1024), TenantClass::Bulk),
        (9, turn(8, 65_536), TenantClass::Bulk),
        // Responses.
        (1, turn(0, 64), TenantClass::Bulk),
        (2, turn(2, 128), TenantClass::Latency),
    ] {
        let end = now.after(25_000_000);
        while now < end {
            // The other one always has something, so that none is alone.
            mux.wake(0, &mut flags[0], true);
            for left in (0..messages).rev() {
                mux.wake(1, &mut flags[1], true);
                while turn_of(&mut mux, &mut flags, now) == Some(0) {
                    mux.settle(0, &mut flags[0], turn(1, 4096), true);
                }
                mux.settle(1, &mut flags[1], usage, left > 0);
            }
            // Its turn finds nothing more.
            for _ in 0..16 {
                assert_eq!(turn_of(&mut mux, &mut flags, now), Some(0));
                mux.settle(0, &mut flags[0], turn(1, 4096), true);
            }
            now = now.after(100_000);
        }
        let known = mux.tenants().expect("some").class_of(id);
        assert_eq!(known, Some(class), "{messages} times {usage:?}");
    }
}

/// Nobody else ever has anything to send.
#[test]
fn who_is_alone_is_classified() {
    let (mut mux, id) = with_auto();
    let mut flags = [SchedFlags::default(); 2];
    let mut now = Time(1_000_000);
    for (messages, class) in [(1, TenantClass::Latency), (6, TenantClass::Normal), (5, TenantClass::Latency)]
    {
        let end = now.after(25_000_000);
        while now < end {
            mux.wake(1, &mut flags[1], true);
            for left in (0..messages).rev() {
                assert_eq!(turn_of(&mut mux, &mut flags, now), Some(1));
                let one = Usage { bytes: 64, packets: 1, operations: 1, ..Usage::default() };
                mux.settle(1, &mut flags[1], one, left > 0);
            }
            assert_eq!(turn_of(&mut mux, &mut flags, now), None);
            now = now.after(100_000);
        }
        assert_eq!(mux.tenants().expect("some").class_of(id), Some(class), "{messages} messages");
    }
}

/// A burst is saved, then calls come as fast as the cap says; others are not held back.
#[test]
fn control_calls_are_capped() {
    let mut mux = mux();
    let tenants = mux.tenants_mut().expect("some");
    let attr = TenantAttr { control_per_s: 1_000, ..TenantAttr::default() };
    assert!(tenants.set(TenantId(1), attr));
    let (mut now, mut admitted) = (Time(1_000_000_000), 0);
    while now < Time(1_100_000_000) {
        match tenants.admit_call(TenantId(1), now) {
            None => admitted += 1,
            Some(wait_ns) => now = now.after(wait_ns),
        }
        assert_eq!(tenants.admit_call(TenantId(2), now), None);
    }
    // 100 in 100 ms, and 32 that were saved.
    assert!((132..=134).contains(&admitted), "{admitted}");
    let (_, counters) = tenants.get(TenantId(1)).expect("it exists");
    assert!(counters.control_calls == admitted && counters.control_waits >= 99, "{counters:?}");
    assert!(tenants.set(TenantId(1), TenantAttr::default()));
    assert!((0..1_000).all(|_| tenants.admit_call(TenantId(1), now).is_none()), "no cap");
}

/// A queue pair of a parked tenant ends, and the next one in its slot is another tenant's.
#[test]
fn a_slot_that_is_ready_goes_over_to_its_new_tenant() {
    let mut mux = mux();
    let tx = TenantCaps { bytes_per_s: 1_000_000, operations_per_s: 0 };
    let capped = TenantAttr { tx, ..TenantAttr::default() };
    assert!(mux.tenants_mut().expect("some").set(TenantId(1), capped));
    let mut flags = [SchedFlags::default(); SLOTS as usize];
    let now = Time(1_000_000_000);
    mux.wake(1, &mut flags[1], true);
    let usage = Usage { bytes: 1 << 20, packets: 16, ..Usage::default() };
    assert_eq!(turn_of(&mut mux, &mut flags, now), Some(1));
    mux.settle(1, &mut flags[1], usage, true);
    assert_eq!(turn_of(&mut mux, &mut flags, now), None);
    assert!(mux.tenants().expect("some").is_parked(1) && mux.next_deadline().is_some());
    mux.tenants_mut().expect("some").assign(1, TenantId(2));
    assert_eq!((mux.waiting(), mux.next_deadline()), (1, None), "nobody is parked any more");
    assert_eq!((mux.behind(Some(5)), mux.behind(Some(2))), (0, 1));
    assert_eq!(turn_of(&mut mux, &mut flags, now), Some(1));
    mux.settle(1, &mut flags[1], Usage::default(), false);
    assert_eq!((mux.waiting(), mux.next_ready(now)), (0, None));
    // From a scavenger, it does not wait until the foreground is idle.
    let scavenger = TenantAttr { class: TenantClass::Scavenger, ..TenantAttr::default() };
    assert!(mux.tenants_mut().expect("some").set(TenantId(3), scavenger));
    [0, 3, 7].into_iter().for_each(|slot: u32| mux.wake(slot, &mut flags[slot as usize], true));
    mux.tenants_mut().expect("some").assign(3, TenantId(2));
    let mut served = Vec::new();
    for _ in 0..4 {
        let slot = turn_of(&mut mux, &mut flags, now).expect("somebody is ready");
        mux.settle(slot, &mut flags[slot as usize], usage, slot == 0);
        served.push(slot);
    }
    assert!(served.contains(&3) && !served.contains(&7), "{served:?}");
}

#[test]
fn a_tenant_owes_nothing_of_the_one_that_had_its_number() {
    let mut mux = mux();
    let caps = TenantCaps { bytes_per_s: 1_000_000, operations_per_s: 1_000 };
    let attr = TenantAttr { tx: caps, rx: caps, control_per_s: 1_000, ..TenantAttr::default() };
    assert!(mux.tenants_mut().expect("some").set(TenantId(1), attr));
    let mut flags = [SchedFlags::default(); SLOTS as usize];
    let now = Time(1_000_000_000);
    let usage = Usage { bytes: 1 << 20, packets: 16, operations: 16, ..Usage::default() };
    mux.wake(1, &mut flags[1], true);
    assert_eq!(turn_of(&mut mux, &mut flags, now), Some(1));
    mux.settle(1, &mut flags[1], usage, true);
    assert_eq!(turn_of(&mut mux, &mut flags, now), None);
    let tenants = mux.tenants_mut().expect("some");
    assert!(!tenants.receive(1, &usage, now) && tenants.receive(1, &usage, now));
    assert!((0..64).any(|_| tenants.admit_call(TenantId(1), now).is_some()));
    [1, 5].into_iter().for_each(|slot| tenants.assign(slot, TenantId::DEFAULT));
    tenants.destroy(TenantId(1));
    assert_eq!(tenants.create(attr), Some(TenantId(1)));
    [1, 5].into_iter().for_each(|slot| tenants.assign(slot, TenantId(1)));
    assert!(!tenants.is_parked(1) && !tenants.receive(1, &usage, now));
    assert_eq!(tenants.admit_call(TenantId(1), now), None);
    // The slot that was ready, and the next that is.
    mux.wake(5, &mut flags[5], true);
    assert_eq!(turn_of(&mut mux, &mut flags, now), Some(1));
    mux.settle(1, &mut flags[1], Usage::default(), false);
    assert_eq!(turn_of(&mut mux, &mut flags, now), Some(5));
}
