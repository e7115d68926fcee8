//! Two hosts with one address: who keeps it, and what each of them hears.

use super::*;

const V6: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 7);
const OUR_NONCE: [u8; 6] = [5; 6];
/// Our nonce while we are asking.
const ASKING: [u8; 6] = [0x85, 5, 5, 5, 5, 5];
const LOST: AddressConflict = AddressConflict { mac: PEER_MAC, ours: false };
const KEPT: AddressConflict = AddressConflict { mac: PEER_MAC, ours: true };

fn host(ip: IpAddr, mac: [u8; 6], nonce: [u8; 6]) -> Neighbor {
    Neighbor::new(&NeighborConfig { mac, ip, nonce, ..config() })
}

/// A link on which every host hears what the others send.
struct Lan {
    hosts: Vec<Neighbor>,
    now: Time,
    told: Vec<(usize, AddressConflict)>,
}

impl Lan {
    fn new(hosts: impl Into<Vec<Neighbor>>) -> Self {
        Self { hosts: hosts.into(), now: Time::ZERO, told: Vec::new() }
    }

    /// Everybody sends what is due, and hears it, until nobody has anything to say. Returns the
    /// number of frames.
    fn settle(&mut self) -> usize {
        let mut frames = 0;
        for _ in 0..1000 {
            let mut said = Vec::new();
            for (from, host) in self.hosts.iter_mut().enumerate() {
                said.extend(std::iter::from_fn(|| transmit(host, self.now)).map(|frame| (from, frame)));
            }
            if said.is_empty() {
                return frames;
            }
            frames += said.len();
            for (from, frame) in said {
                for (to, host) in self.hosts.iter_mut().enumerate().filter(|(to, _)| *to != from) {
                    if let Handled::Disputed(Some(conflict)) = host.handle_frame(self.now, &frame) {
                        self.told.push((to, conflict));
                    }
                }
            }
        }
        panic!("the hosts never fall silent");
    }

    /// Time goes on to the next deadline of any host, until `end`.
    fn run(&mut self, end: Time) {
        self.settle();
        while let Some(next) = self.hosts.iter().filter_map(Neighbor::next_deadline).min()
            && next <= end
        {
            self.now = next;
            self.settle();
        }
        self.now = end;
    }
}

fn addresses() -> [IpAddr; 2] {
    [IpAddr::V4(OUR_IP), IpAddr::V6(V6)]
}

/// The peer's own Ethernet address, and ours: without an option, it is made of the IP address.
fn peers(ip: IpAddr) -> [Neighbor; 2] {
    [host(ip, PEER_MAC, [9; 6]), host(ip, OUR_MAC, [9; 6])]
}

#[test]
fn the_newer_host_loses_the_address_and_the_older_keeps_it() {
    for ip in addresses() {
        for (peer, mac) in peers(ip).into_iter().zip([PEER_MAC, OUR_MAC]) {
            let mut lan = Lan::new([host(ip, OUR_MAC, OUR_NONCE)]);
            lan.hosts[0].probe_address();
            lan.run(Time(20 * SECOND_NS));
            assert_eq!(lan.told, [], "{ip}: alone");
            lan.hosts.push(peer);
            lan.hosts[1].probe_address();
            lan.settle();
            assert_eq!(lan.told, [(1, AddressConflict { mac: OUR_MAC, ours: false })], "{ip}");
            assert_eq!(lan.hosts[1].address_holder(), Some(OUR_MAC), "{ip}, {mac:?}");
            assert_eq!(lan.hosts[0].address_holder(), None);
            let other = if ip.is_ipv4() { IpAddr::V4(PEER_IP) } else { "fd00::9".parse().unwrap() };
            let now = lan.now;
            assert_eq!(lan.hosts[1].resolve(now, other), Resolution::AddressTaken(OUR_MAC), "{ip}");
            assert_eq!(lan.hosts[0].resolve(now, other), Resolution::Pending);
        }
    }
}

#[test]
fn hosts_with_addresses_of_their_own_hear_nothing() {
    let other = [IpAddr::V4(PEER_IP), "fd00::8".parse().unwrap()];
    for (ip, other) in addresses().into_iter().zip(other) {
        let mut lan = Lan::new([host(ip, OUR_MAC, OUR_NONCE), host(other, PEER_MAC, [9; 6])]);
        lan.hosts.iter_mut().for_each(Neighbor::probe_address);
        lan.run(Time(60 * SECOND_NS));
        assert_eq!(lan.told, []);
        // Three probes and an announcement each, and then silence.
        assert_eq!(lan.hosts.iter().map(|host| host.stats().claims_tx).sum::<u64>(), 2 * 4);
    }
}

#[test]
fn of_two_that_ask_at_once_the_smaller_nonce_keeps_the_address() {
    for ip in addresses() {
        for peer in peers(ip) {
            let mut lan = Lan::new([host(ip, OUR_MAC, OUR_NONCE), peer]);
            lan.hosts.iter_mut().for_each(Neighbor::probe_address);
            lan.run(Time(60 * SECOND_NS));
            let lost = (1, AddressConflict { mac: OUR_MAC, ours: false });
            assert_eq!(lan.told.iter().filter(|(_, conflict)| !conflict.ours).collect::<Vec<_>>(), [&lost]);
            assert_eq!(lan.hosts[0].address_holder(), None, "{ip}");
            assert_eq!(lan.hosts[1].address_holder(), Some(OUR_MAC), "{ip}");
        }
    }
}

#[test]
fn an_address_whose_holder_left_is_ours_again() {
    for ip in addresses() {
        let mut lan = Lan::new([host(ip, PEER_MAC, [9; 6]), host(ip, OUR_MAC, OUR_NONCE)]);
        lan.hosts[1].probe_address();
        lan.settle();
        assert_eq!(lan.told, [(1, LOST)]);
        lan.hosts.remove(0);
        lan.run(Time(RECLAIM_NS - 1));
        assert_eq!(lan.hosts[0].address_holder(), Some(PEER_MAC));
        lan.run(Time(RECLAIM_NS + u64::from(PROBES) * PROBE_INTERVAL_NS));
        assert_eq!(lan.hosts[0].address_holder(), None, "{ip}");
    }
}

#[test]
fn who_lost_the_address_is_silent_about_it() {
    let mut neighbor = host(IpAddr::V4(OUR_IP), OUR_MAC, OUR_NONCE);
    neighbor.probe_address();
    transmit(&mut neighbor, Time::ZERO).unwrap();
    let claim = arp([0xFF; 6], 1, (PEER_MAC, OUR_IP), ([0; 6], OUR_IP));
    assert_eq!(neighbor.handle_frame(Time::ZERO, &claim), Handled::Disputed(Some(LOST)));
    assert_eq!(neighbor.handle_frame(Time(1), &claim), Handled::Disputed(None), "told once");
    let question = arp([0xFF; 6], 1, ([2, 0, 0, 0, 0, 0x0C], PEER_IP), ([0; 6], OUR_IP));
    assert_eq!(neighbor.handle_frame(Time(1), &question), Handled::Consumed);
    assert_eq!(transmit(&mut neighbor, Time(1)), None);
}

#[test]
fn an_address_that_is_held_is_defended_once_a_second_and_told_of_once_in_ten() {
    let mut neighbor = host(IpAddr::V4(OUR_IP), OUR_MAC, OUR_NONCE);
    let claim = arp([0xFF; 6], 1, (PEER_MAC, OUR_IP), ([0; 6], OUR_IP));
    let (mut defences, mut told) = (0, Vec::new());
    for tenth in 0..100_u64 {
        let now = Time(tenth * SECOND_NS / 10);
        let Handled::Disputed(conflict) = neighbor.handle_frame(now, &claim) else { panic!("a dispute") };
        told.extend(conflict);
        defences += u64::from(transmit(&mut neighbor, now).is_some());
    }
    assert_eq!((defences, told), (10, vec![KEPT]));
    let late = Time(100 * SECOND_NS);
    assert_eq!(neighbor.handle_frame(late, &claim), Handled::Disputed(Some(KEPT)));
    assert_eq!(neighbor.address_holder(), None);
}

/// A bridge with a loop brings our own frames back.
#[test]
fn words_of_our_own_are_no_dispute() {
    for ip in addresses() {
        let mut neighbor = host(ip, OUR_MAC, OUR_NONCE);
        neighbor.probe_address();
        let mut now = Time::ZERO;
        for _ in 0..4 {
            let frame = transmit(&mut neighbor, now).expect("a probe or the announcement");
            assert!(matches!(neighbor.handle_frame(now, &frame), Handled::Consumed | Handled::Ignored));
            now = neighbor.next_deadline().unwrap_or(now);
        }
        assert_eq!((neighbor.stats().conflicts, neighbor.address_holder()), (0, None), "{ip}");
    }
}

#[test]
fn no_neighbor_is_looked_for_until_the_first_probe_may_have_been_answered() {
    let mut neighbor = host(IpAddr::V4(OUR_IP), OUR_MAC, OUR_NONCE);
    neighbor.probe_address();
    let peer = IpAddr::V4(PEER_IP);
    assert_eq!(neighbor.resolve(Time::ZERO, peer), Resolution::Pending);
    let probe = arp([0xFF; 6], 1, (OUR_MAC, Ipv4Addr::UNSPECIFIED), (ASKING, OUR_IP));
    assert_eq!(transmit(&mut neighbor, Time::ZERO), Some(probe));
    assert_eq!(neighbor.resolve(Time(PROBE_ANSWER_NS - 1), peer), Resolution::Pending);
    assert_eq!(transmit(&mut neighbor, Time(PROBE_ANSWER_NS - 1)), None);
    assert_eq!(neighbor.resolve(Time(PROBE_ANSWER_NS), peer), Resolution::Pending);
    let question = arp([0xFF; 6], 1, (OUR_MAC, OUR_IP), (ASKING, PEER_IP));
    assert_eq!(transmit(&mut neighbor, Time(PROBE_ANSWER_NS)), Some(question));
}

#[test]
fn every_engine_of_a_device_hears_a_dispute_and_one_speaks() {
    let config = NeighborConfig { nonce: OUR_NONCE, defends: false, ..config() };
    let claim = arp([0xFF; 6], 1, (PEER_MAC, OUR_IP), ([0; 6], OUR_IP));
    assert!(config.is_announcement(&claim));
    let mut silent = Neighbor::new(&config);
    silent.probe_address();
    assert_eq!(transmit(&mut silent, Time::ZERO), None);
    assert_eq!(silent.handle_frame(Time::ZERO, &claim), Handled::Disputed(Some(LOST)));
    assert_eq!(silent.address_holder(), Some(PEER_MAC));
}

/// A question goes out as soon as frames can pass, and that the link is up may be noticed later.
#[test]
fn a_host_that_has_not_asked_yet_takes_no_address_from_one_that_asks() {
    let mut older = host(IpAddr::V4(OUR_IP), OUR_MAC, OUR_NONCE);
    let mut newer = host(IpAddr::V4(OUR_IP), OUR_MAC, [9; 6]);
    newer.suspend_probe();
    older.probe_address();
    newer.resolve(Time::ZERO, IpAddr::V4(PEER_IP));
    let question = transmit(&mut newer, Time::ZERO).expect("a question");
    let kept = AddressConflict { mac: OUR_MAC, ours: true };
    assert_eq!(older.handle_frame(Time::ZERO, &question), Handled::Disputed(Some(kept)));
    let defence = transmit(&mut older, Time::ZERO).expect("an announcement");
    let lost = AddressConflict { mac: OUR_MAC, ours: false };
    assert_eq!(newer.handle_frame(Time::ZERO, &defence), Handled::Disputed(Some(lost)));
    assert_eq!((older.address_holder(), newer.address_holder()), (None, Some(OUR_MAC)));
}

/// The second engine of a device slept when the first answer came: it hears that one a millisecond
/// late, and later ones at once. Nobody hears it.
#[test]
fn engines_of_one_device_agree_on_whose_the_address_is() {
    for ip in addresses() {
        let of_device = |defends| NeighborConfig { ip, nonce: [9; 6], defends, ..config() };
        let mut engines = [true, false].map(|defends| Neighbor::new(&of_device(defends)));
        let mut holder = host(ip, PEER_MAC, OUR_NONCE);
        engines.iter_mut().for_each(Neighbor::probe_address);
        let (mut told, mut waiting) = ([0, 0], Vec::<(u64, Vec<u8>)>::new());
        for tick in 0..120_000_u64 {
            let now = tick * 500_000;
            let late = if now < SECOND_NS { 1_000_000 } else { 0 };
            let asked: Vec<_> = std::iter::from_fn(|| transmit(&mut engines[0], Time(now))).collect();
            assert_eq!(transmit(&mut engines[1], Time(now)), None);
            for frame in asked {
                holder.handle_frame(Time(now), &frame);
            }
            let answers: Vec<_> = std::iter::from_fn(|| transmit(&mut holder, Time(now))).collect();
            for frame in answers {
                told[0] += usize::from(matches!(
                    engines[0].handle_frame(Time(now), &frame),
                    Handled::Disputed(Some(_))
                ));
                assert!(of_device(false).is_announcement(&frame));
                waiting.push((now + late, frame));
            }
            while let Some((at, frame)) = waiting.first().cloned()
                && at <= now
            {
                waiting.remove(0);
                told[1] += usize::from(matches!(
                    engines[1].handle_frame(Time(now), &frame),
                    Handled::Disputed(Some(_))
                ));
            }
            if now > 1_000_000 {
                assert_eq!(
                    engines.each_ref().map(Neighbor::address_holder),
                    [Some(PEER_MAC); 2],
                    "{ip}, at {now} ns"
                );
            }
        }
        assert_eq!(told, [1, 1], "{ip}");
    }
}
