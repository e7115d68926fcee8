//! Multicast groups of datagrams (protocol.md 1.11): who hears what, what is refused, and what is
//! dropped.

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;
#[path = "support/wait.rs"]
mod wait;

use core::net::IpAddr;
use verbs_api::{
    Access, AddressVector, CompletionQueue, Counters, Datagram, Device, Driver, Error, Grh, GroupError,
    MULTICAST_QPN, MemoryRegion, ProtectionDomain, QpType, RecvRequest, SendData, UdQueuePair, WcFlags,
    WcStatus,
};

const QKEY: u32 = 0x0123_4567;
const GROUP: &str = "239.7.8.9";
const GROUP_V6: &str = "ff0e::7:8:9";
const LEN: usize = Grh::LEN + 24;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A queue pair that takes datagrams, each into the same memory.
struct Ear {
    pair: UdQueuePair,
    cq: CompletionQueue,
    memory: MemoryRegion,
}

impl Ear {
    fn new(device: &Device, pd: &ProtectionDomain, receives: u64) -> Self {
        let cq = device.create_cq(64).expect("a queue");
        let mut pair = pd.ud_queue_pair(&cq, &cq).qkey(QKEY).build().expect("a queue pair");
        let memory = pd.register(LEN, Access::LOCAL_WRITE).expect("memory");
        for wr_id in 0..receives {
            let scatter = [memory.slice(..).expect("inside")];
            pair.post_recv(&RecvRequest { wr_id, scatter: &scatter }).expect("posted");
        }
        Self { pair, cq, memory }
    }

    /// The text that it hears next, and whom it was from and to.
    fn heard(&mut self, all: &[&Device]) -> (Vec<u8>, Grh) {
        let done = wait::until("a datagram", || {
            all.iter().for_each(|device| _ = device.progress());
            self.cq.poll()
        });
        assert_eq!((done.status, done.qpn), (WcStatus::Success, self.pair.qpn()));
        assert!(done.flags.contains(WcFlags::GRH));
        let mut bytes = [0; LEN];
        self.memory.read(0, &mut bytes).expect("inside");
        let area = bytes[..Grh::LEN].try_into().expect("40 bytes");
        let end = usize::try_from(done.byte_len).expect("it fits");
        (bytes[Grh::LEN..end].to_vec(), Grh::parse(&area).expect("a header"))
    }

    fn hears_nothing(&mut self) {
        assert!(self.cq.poll().is_none());
    }
}

struct Host {
    device: Device,
    pd: ProtectionDomain,
}

impl Host {
    fn open(driver: Driver, text: &str) -> Self {
        let device = Device::builder().driver(driver).open(text).expect("a device");
        let pd = device.alloc_pd();
        Self { device, pd }
    }

    fn ear(&self, receives: u64) -> Ear {
        Ear::new(&self.device, &self.pd, receives)
    }

    fn say(&self, mouth: &mut Ear, group: IpAddr, text: &[u8], qkey: u32) {
        let to = self.pd.create_ah_to(group).expect("a way");
        mouth
            .pair
            .post_send(&Datagram::to_group(SendData::Inline(text), &to, qkey).signaled())
            .expect("posted");
        let sent = wait::completion(&mut mouth.cq, &self.device);
        assert_eq!(sent.status, WcStatus::Success);
    }

    fn counts(&self, others: &[&Device], what: &str, condition: impl Fn(&Counters) -> bool) {
        wait::until(what, || {
            others.iter().for_each(|device| _ = device.progress());
            self.device.progress();
            condition(&self.device.counters()).then_some(())
        });
    }
}

with_all_drivers! {

fn every_member_of_every_host_hears_it_once(driver: Driver) {
    for (name, group, ips) in [
        ("v4", GROUP, ["10.77.0.1", "10.77.0.2", "10.77.0.3"]),
        ("v6", GROUP_V6, ["fd00::1", "fd00::2", "fd00::3"]),
    ] {
        let hosts = ips.map(|ip| Host::open(driver, &format!("sim:every-{name}-{driver:?},ip={ip}")));
        let all = hosts.each_ref().map(|host| &host.device);
        let group = ip(group);
        // Two on each host, one of which joins twice; the last on each does not join.
        let mut ears: Vec<Vec<Ear>> =
            hosts.iter().map(|host| (0..3).map(|_| host.ear(4)).collect()).collect();
        for ear in ears.iter_mut().flat_map(|ears| &mut ears[..2]) {
            ear.pair.join_group(group).expect("a group");
        }
        for ears in &mut ears {
            ears[1].pair.join_group(group).expect("a member");
        }
        let mut mouth = hosts[0].ear(0);
        hosts[0].say(&mut mouth, group, b"to all of you", QKEY);
        for ears in &mut ears {
            for ear in &mut ears[..2] {
                let (text, grh) = ear.heard(&all);
                assert_eq!(text, b"to all of you");
                assert_eq!((grh.src, grh.dst), (hosts[0].device.ip(), group));
            }
        }
        // What comes behind it says that there was no more of it.
        hosts[0].say(&mut mouth, group, b"again", QKEY);
        for ears in &mut ears {
            for ear in &mut ears[..2] {
                assert_eq!(ear.heard(&all).0, b"again");
                ear.hears_nothing();
            }
            ears[2].hears_nothing();
        }
        assert_eq!(hosts[1].device.counters().drop_group, 0);
    }
}

fn a_member_hears_itself(driver: Driver) {
    let host = Host::open(driver, &format!("sim:itself-{driver:?}"));
    let mut ear = host.ear(2);
    ear.pair.join_group(ip(GROUP)).expect("a group");
    let to = host.pd.create_ah_to(ip(GROUP)).expect("a way");
    ear.pair.post_send(&Datagram::to_group(SendData::Inline(b"who is there"), &to, QKEY)).expect("posted");
    assert_eq!(ear.heard(&[&host.device]).0, b"who is there");
}

fn who_leaves_or_ends_hears_no_more(driver: Driver) {
    let [here, there] = [1, 2].map(|_| Host::open(driver, &format!("sim:leaves-{driver:?}")));
    let (group, all) = (ip(GROUP), [&here.device, &there.device]);
    let [mut stays, mut leaves, mut ends] = [0; 3].map(|_| there.ear(4));
    for ear in [&mut stays, &mut leaves, &mut ends] {
        ear.pair.join_group(group).expect("a group");
    }
    leaves.pair.leave_group(group).expect("a member");
    drop(ends);
    let mut mouth = here.ear(0);
    here.say(&mut mouth, group, b"one", QKEY);
    assert_eq!(stays.heard(&all).0, b"one");
    leaves.hears_nothing();
    stays.pair.leave_group(group).expect("a member");
    here.say(&mut mouth, group, b"two", QKEY);
    there.counts(&all, "nobody", |counters| counters.drop_group == 1);
    stays.hears_nothing();
    assert_eq!(here.device.counters().drop_group, 0, "its own are not looped where nobody is");
}

fn what_is_not_for_a_member_is_counted(driver: Driver) {
    let [here, there] = [1, 2].map(|_| Host::open(driver, &format!("sim:counted-{driver:?}")));
    let all = [&here.device, &there.device];
    let mut ear = there.ear(1);
    ear.pair.join_group(ip(GROUP)).expect("a group");
    let mut mouth = here.ear(0);
    here.say(&mut mouth, ip("239.7.8.10"), b"another group", QKEY);
    there.counts(&all, "another group", |counters| counters.drop_group == 1);
    // Its Ethernet address is that of the group, whose upper bits it lacks.
    here.say(&mut mouth, ip("239.135.8.9"), b"the same address", QKEY);
    there.counts(&all, "another group", |counters| counters.drop_group == 2);
    here.say(&mut mouth, ip(GROUP), b"another key", QKEY ^ 1);
    there.counts(&all, "Q_Key", |counters| counters.drop_qkey == 1);
    here.say(&mut mouth, ip(GROUP), &[7; 25], QKEY);
    there.counts(&all, "length", |counters| counters.drop_receive_too_short == 1);
    here.say(&mut mouth, ip(GROUP), b"at last", QKEY);
    assert_eq!(ear.heard(&all).0, b"at last");
    here.say(&mut mouth, ip(GROUP), b"no receive", QKEY);
    there.counts(&all, "no receive", |counters| counters.drop_no_receive == 1);
}

fn members_of_several_engines_hear_it(driver: Driver) {
    let engines = Device::builder().driver(driver).open_engines(&format!("sim:engines-{driver:?},engines=2"));
    let engines = engines.expect("a device");
    let hosts: Vec<Host> =
        engines.into_iter().map(|device| Host { pd: device.alloc_pd(), device }).collect();
    let far = Host::open(driver, &format!("sim:engines-{driver:?}"));
    let all = [&hosts[0].device, &hosts[1].device, &far.device];
    let mut ears: Vec<Ear> = hosts.iter().map(|host| host.ear(4)).collect();
    for ear in &mut ears {
        ear.pair.join_group(ip(GROUP)).expect("a group");
    }
    let mut mouth = far.ear(0);
    far.say(&mut mouth, ip(GROUP), b"from afar", QKEY);
    ears.iter_mut().for_each(|ear| assert_eq!(ear.heard(&all).0, b"from afar"));
    let mut mouth = hosts[0].ear(0);
    hosts[0].say(&mut mouth, ip(GROUP), b"from here", QKEY);
    for ear in &mut ears {
        assert_eq!(ear.heard(&all).0, b"from here");
        ear.hears_nothing();
    }
}

}

#[test]
fn what_cannot_be_a_member_is_refused() {
    let host = Host::open(Driver::Inline, "sim:refused");
    let mut ear = host.ear(0);
    let refused = |result: Result<(), Error>| match result {
        Err(Error::Group(error)) => error,
        other => panic!("{other:?}"),
    };
    for host in ["10.77.0.9", "0.0.0.0", "255.255.255.255", "fd00::1"] {
        assert_eq!(refused(ear.pair.join_group(ip(host))), GroupError::NotAGroup(ip(host)));
    }
    let (group, own) = (ip(GROUP_V6), host.device.ip());
    assert_eq!(refused(ear.pair.join_group(group)), GroupError::OtherFamily { group, own });
    assert_eq!(refused(ear.pair.leave_group(ip(GROUP))), GroupError::NotMember(ip(GROUP)));
    let mut connected = host.pd.queue_pair(&ear.cq, &ear.cq).create().expect("a queue pair");
    assert_eq!(refused(connected.join_group(ip(GROUP))), GroupError::Service(QpType::Rc));
    let limits = host.device.query();
    for number in 0..limits.max_groups {
        let [_, b, c, d] = number.to_be_bytes();
        ear.pair.join_group([239, b, c, d].into()).expect("there is room");
    }
    assert!(matches!(refused(ear.pair.join_group(ip(GROUP))), GroupError::Full { capacity: 1024, .. }));
}

#[test]
fn only_datagrams_go_to_a_group_and_only_to_all_members() {
    let host = Host::open(Driver::Inline, "sim:goes");
    let mut mouth = host.ear(0);
    let (group, this) = (host.pd.create_ah_to(ip(GROUP)).expect("a way"), host.device.ip());
    let one = host.pd.create_ah_to(this).expect("a way");
    for (to, qpn) in [(&group, 17), (&one, MULTICAST_QPN)] {
        let sent = mouth.pair.post_send(&Datagram::new(SendData::Inline(b"x"), to, qpn, QKEY));
        assert!(matches!(sent, Err(Error::DatagramTo { .. })), "{sent:?}");
    }
    let av = AddressVector { src_ip: this, dst_ip: ip(GROUP_V6), ..AddressVector::default() };
    assert!(matches!(host.pd.create_ah(&av), Err(Error::Create(_))), "of another family");
    assert!(AddressVector { dst_ip: ip(GROUP), ..av }.validate().is_err(), "no connection goes there");
}
