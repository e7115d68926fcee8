//! Unreliable datagrams (protocol.md 1.3, 1.11): what a receive and its completion say, what is
//! dropped, and what a send that cannot be sent does to its queue pair (1.9, SQE).

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;
#[path = "support/wait.rs"]
mod wait;

use verbs_api::{
    Access, AddressHandle, AddressVector, Completion, CompletionQueue, Counters, Datagram, Device, Driver,
    Error, Grh, MemoryRegion, PostError, ProtectionDomain, QpState, QpType, QueueCaps, RecvRequest, SendData,
    SendRequest, Sge, SrqCaps, UdQueuePair, WcFlags, WcOpcode, WcStatus,
};

const QKEY: u32 = 0x1111_2222;

struct Host {
    device: Device,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    pair: UdQueuePair,
}

fn open(driver: Driver, text: &str) -> Host {
    let device = Device::builder().driver(driver).open(text).expect("a device");
    let (pd, cq) = (device.alloc_pd(), device.create_cq(256).expect("a queue"));
    let pair = pd.ud_queue_pair(&cq, &cq).qkey(QKEY).build().expect("a queue pair");
    Host { device, pd, cq, pair }
}

fn hosts(driver: Driver, name: &str) -> [Host; 2] {
    [(); 2].map(|()| open(driver, &format!("sim:{name}-{driver:?},mtu=1500")))
}

impl Host {
    fn memory(&self, len: usize) -> MemoryRegion {
        self.pd.register(len, Access::LOCAL_WRITE).expect("memory")
    }

    /// Posts a receive of `sges`.
    fn receive(&mut self, wr_id: u64, scatter: &[Sge]) {
        self.pair.post_recv(&RecvRequest { wr_id, scatter }).expect("posted");
    }

    /// A way to `other` whose Ethernet address is known.
    fn way_to(&self, other: &Self) -> AddressHandle {
        let av = AddressVector {
            src_ip: self.device.ip(),
            dst_ip: other.device.ip(),
            dst_mac: Some(other.device.mac()),
            ..AddressVector::default()
        };
        self.pd.create_ah(&av).expect("an address handle")
    }

    fn sees(&self, other: &Self, what: &str, condition: impl Fn(&Counters) -> bool) {
        wait::until(what, || {
            self.device.progress();
            other.device.progress();
            condition(&self.device.counters()).then_some(())
        });
    }
}

fn complete(host: &mut Host, other: &Host) -> Completion {
    wait::completion(&mut host.cq, &other.device)
}

fn bytes(region: &MemoryRegion) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    region.read(0, &mut bytes).expect("inside");
    bytes
}

fn grh_of(region: &MemoryRegion) -> Option<Grh> {
    Grh::parse(bytes(region)[..Grh::LEN].try_into().expect("40 bytes"))
}

with_all_drivers! {

fn a_receive_says_who_sent_it(driver: Driver) {
    for (name, ips) in [("v4", ["10.77.0.1", "10.77.0.2"]), ("v6", ["fd00::1", "fd00::2"])] {
        let [mut one, mut two] = ips.map(|ip| open(driver, &format!("sim:says-{name}-{driver:?},ip={ip}")));
        let memory = two.memory(256);
        memory.write(0, &[0xEE; 256]).expect("inside");
        two.receive(7, &[memory.slice(..).expect("inside")]);
        let to = one.way_to(&two);
        let datagram = Datagram::new(SendData::Inline(b"hello"), &to, two.pair.qpn(), QKEY);
        one.pair.post_send(&datagram.with_imm(0xABCD).id(9).signaled().solicited()).expect("posted");

        let done = complete(&mut two, &one);
        assert_eq!((done.wr_id, done.status, done.opcode), (7, WcStatus::Success, WcOpcode::Recv));
        assert_eq!(done.flags, WcFlags::GRH | WcFlags::WITH_IMM | WcFlags::SOLICITED);
        assert_eq!((done.byte_len, done.imm), (45, 0xABCD));
        assert_eq!((done.qpn, done.src_qp), (two.pair.qpn(), one.pair.qpn()));
        let bytes = bytes(&memory);
        assert_eq!((&bytes[40..45], &bytes[45..]), (&b"hello"[..], &[0xEE; 211][..]));
        assert_eq!(grh_of(&memory), Some(Grh { src: one.device.ip(), dst: two.device.ip() }));
        if one.device.ip().is_ipv4() {
            assert_eq!(bytes[..20], [0; 20], "an IPv4 header is the last 20 bytes of the area");
        }
        let sent = complete(&mut one, &two);
        assert_eq!((sent.wr_id, sent.status, sent.opcode), (9, WcStatus::Success, WcOpcode::Send));
    }
}

fn every_length_up_to_a_packet_arrives_and_none_beyond_is_posted(driver: Driver) {
    let [mut one, mut two] = hosts(driver, "lengths");
    let max = usize::try_from(one.pair.max_message()).expect("it fits");
    assert_eq!(max, 1024, "what an MTU of 1500 has room for");
    let source = one.memory(max + 1);
    let pattern: Vec<u8> = (0..=max).map(|at| u8::try_from(at * 7 % 251).expect("below 251")).collect();
    source.write(0, &pattern).expect("inside");
    let (area, target) = (two.memory(Grh::LEN), two.memory(max));
    let to = one.way_to(&two);
    for len in (0..32).chain([100, 255, 256, 257, 511, 1000, 1021, 1022, 1023, 1024]) {
        target.write(0, &vec![0xEE; max]).expect("inside");
        // The area and the message in elements of their own, the message in two.
        let cut = len / 3;
        let [head, tail] = [target.slice(..cut), target.slice(cut..)].map(|slice| slice.expect("inside"));
        two.receive(1, &[area.slice(..).expect("inside"), head, tail]);
        let gather = [source.slice(..cut).expect("inside"), source.slice(cut..len).expect("inside")];
        one.pair
            .post_send(&Datagram::new(SendData::Gather(&gather), &to, two.pair.qpn(), QKEY))
            .expect("posted");
        let done = complete(&mut two, &one);
        assert_eq!((done.status, done.byte_len as usize), (WcStatus::Success, Grh::LEN + len));
        let arrived = bytes(&target);
        assert_eq!((&arrived[..len], arrived[len..].iter().all(|byte| *byte == 0xEE)), (&pattern[..len], true));
    }
    let gather = [source.slice(..).expect("inside")];
    let error = one.pair.post_send(&Datagram::new(SendData::Gather(&gather), &to, two.pair.qpn(), QKEY));
    assert!(matches!(error, Err(Error::Post(PostError::DatagramTooLong { given: 1025, max: 1024 }))), "{error:?}");
}

fn what_is_not_wanted_is_dropped_and_counted(driver: Driver) {
    let [mut one, mut two] = hosts(driver, "unwanted");
    let memory = two.memory(Grh::LEN + 8);
    memory.write(0, &[0xEE; Grh::LEN + 8]).expect("inside");
    let to = one.way_to(&two);
    let (qpn, data) = (two.pair.qpn(), SendData::Inline(b"8 bytes."));
    one.pair.post_send(&Datagram::new(data, &to, qpn, QKEY)).expect("posted");
    two.sees(&one, "no receive", |counters| counters.drop_no_receive == 1);
    two.receive(1, &[memory.slice(..).expect("inside")]);
    one.pair.post_send(&Datagram::new(data, &to, qpn, QKEY ^ 1)).expect("posted");
    two.sees(&one, "Q_Key", |counters| counters.drop_qkey == 1);
    one.pair.post_send(&Datagram::new(data, &to, qpn ^ 0x80_0000, QKEY)).expect("posted");
    two.sees(&one, "QPN", |counters| counters.drop_unknown_qp == 1);
    one.pair.post_send(&Datagram::new(SendData::Inline(b"9 bytes.."), &to, qpn, QKEY)).expect("posted");
    two.sees(&one, "too long for the receive", |counters| counters.drop_receive_too_short == 1);
    assert_eq!(bytes(&memory), [0xEE; Grh::LEN + 8], "nothing was written");
    assert_eq!(two.cq.poll(), None);
    // The receive is still there, and takes what fits.
    one.pair.post_send(&Datagram::new(data, &to, qpn, QKEY)).expect("posted");
    let done = complete(&mut two, &one);
    assert_eq!((done.wr_id, done.status, done.byte_len), (1, WcStatus::Success, 48));
}

fn one_queue_pair_talks_to_many_and_to_itself(driver: Driver) {
    let [mut one, mut two] = hosts(driver, "many");
    let (to_two, to_one) = (one.way_to(&two), one.way_to(&one));
    let mut third = two.pd.ud_queue_pair(&two.cq, &two.cq).qkey(3).build().expect("a queue pair");
    let memory = two.memory(256);
    let own = one.memory(256);
    let whole = [memory.slice(..).expect("inside")];
    third.post_recv(&RecvRequest { wr_id: 33, scatter: &whole }).expect("posted");
    two.receive(22, &whole);
    one.receive(11, &[own.slice(..).expect("inside")]);
    for (to, qpn, qkey) in
        [(&to_two, third.qpn(), 3), (&to_one, one.pair.qpn(), QKEY), (&to_two, two.pair.qpn(), QKEY)]
    {
        one.pair.post_send(&Datagram::new(SendData::Inline(b"to you"), to, qpn, qkey)).expect("posted");
    }
    let mine = complete(&mut one, &two);
    assert_eq!((mine.wr_id, mine.src_qp, grh_of(&own).map(|grh| grh.src)), (11, one.pair.qpn(), Some(one.device.ip())));
    for (wr_id, qpn) in [(33, third.qpn()), (22, two.pair.qpn())] {
        let done = complete(&mut two, &one);
        assert_eq!((done.wr_id, done.qpn, done.src_qp), (wr_id, qpn, one.pair.qpn()));
    }
}

fn queue_pairs_share_receives(driver: Driver) {
    let [mut one, mut two] = hosts(driver, "shared");
    let mut srq = two.pd.create_srq(SrqCaps { max_wr: 8, max_sge: 1 }).expect("a queue");
    let memory = two.memory(1024);
    let pairs = [(); 2].map(|()| {
        two.pd.ud_queue_pair(&two.cq, &two.cq).qkey(QKEY).srq(&srq).build().expect("a queue pair")
    });
    for index in 0..4 {
        let place = memory.slice(256 * index..256 * (index + 1)).expect("inside");
        srq.post_recv(&RecvRequest { wr_id: index as u64, scatter: &[place] }).expect("posted");
    }
    let to = one.way_to(&two);
    for (index, pair) in [0, 1, 1, 0].into_iter().map(|index: usize| &pairs[index]).enumerate() {
        let text = [b'0' + u8::try_from(index).expect("small")];
        one.pair.post_send(&Datagram::new(SendData::Inline(&text), &to, pair.qpn(), QKEY)).expect("posted");
        let done = complete(&mut two, &one);
        assert_eq!((done.wr_id, done.qpn, done.status), (index as u64, pair.qpn(), WcStatus::Success));
        assert_eq!(bytes(&memory)[256 * index + Grh::LEN], text[0]);
    }
}

fn a_send_that_cannot_be_sent_stops_sends_only(driver: Driver) {
    let [mut one, mut two] = hosts(driver, "sqe");
    let (target, source) = (one.memory(256), one.memory(64));
    let (to, back) = (one.way_to(&two), two.way_to(&one));
    let gone = one.memory(64).slice(..).expect("inside");
    for round in 0..3_u64 {
        let lost = one.way_to(&two);
        let key = [gone];
        let bad = match round {
            0 => Datagram::new(SendData::Gather(&key), &to, two.pair.qpn(), QKEY),
            _ => Datagram::new(SendData::Inline(b"lost"), &lost, two.pair.qpn(), QKEY),
        };
        if round > 0 {
            // In SQD nothing begins, so that the handle is gone when its turn comes.
            one.pair.modify(&verbs_api::QpAttr { state: QpState::Sqd, ..one.pair.query() }, verbs_api::QpAttrMask::STATE).expect("RTS to SQD");
        }
        one.pair.post_send(&bad.id(100 + round)).expect("posted");
        drop(lost);
        if round > 0 {
            one.pair.resume_after_error().expect("SQD to RTS");
        }
        let failed = complete(&mut one, &two);
        let status = if round == 0 { WcStatus::LocProtErr } else { WcStatus::LocQpOpErr };
        assert_eq!((failed.wr_id, failed.status, one.pair.state()), (100 + round, status, QpState::Sqe));
        // Sends are flushed, receives go on.
        one.pair.post_send(&Datagram::new(SendData::Inline(b"no"), &to, two.pair.qpn(), QKEY).id(1)).expect("posted");
        let flushed = complete(&mut one, &two);
        assert_eq!((flushed.wr_id, flushed.status), (1, WcStatus::WrFlushErr));
        one.receive(5, &[target.slice(..).expect("inside")]);
        two.pair.post_send(&Datagram::new(SendData::Inline(b"in"), &back, one.pair.qpn(), QKEY)).expect("posted");
        assert_eq!(complete(&mut one, &two).wr_id, 5);
        // Until it is told to go on.
        one.pair.resume_after_error().expect("SQE to RTS");
        two.receive(6, &[]);
        let gather = [source.slice(..4).expect("inside")];
        one.pair.post_send(&Datagram::new(SendData::Gather(&gather), &to, two.pair.qpn(), QKEY).id(2).signaled()).expect("posted");
        assert_eq!((complete(&mut one, &two).wr_id, one.pair.state()), (2, QpState::Rts));
        // It has no room for the datagram, and is still there.
        two.sees(&one, "an empty receive", |counters| counters.drop_receive_too_short == round + 1);
    }
}

}

#[test]
fn a_receive_that_may_not_be_written_ends_the_queue_pair() {
    let [mut one, mut two] = hosts(Driver::Inline, "bad-receive");
    let gone = two.memory(256).slice(..).expect("inside");
    two.receive(1, &[gone]);
    two.receive(2, &[]);
    let to = one.way_to(&two);
    one.pair.post_send(&Datagram::new(SendData::Inline(b"x"), &to, two.pair.qpn(), QKEY)).expect("posted");
    let done = complete(&mut two, &one);
    assert_eq!((done.wr_id, done.status), (1, WcStatus::LocProtErr));
    let done = complete(&mut two, &one);
    assert_eq!((done.wr_id, done.status, two.pair.state()), (2, WcStatus::WrFlushErr, QpState::Err));
}

#[test]
fn addresses_are_of_their_own_device_and_domain() {
    let [mut one, two] = hosts(Driver::Inline, "owners");
    let theirs = two.way_to(&one);
    let datagram = Datagram::new(SendData::Inline(b"x"), &theirs, 2, 0);
    let error = one.pair.post_send(&datagram).expect_err("another device's");
    assert!(matches!(error, Error::OtherDevice { what: "address handle" }), "{error}");
    let ours = one.way_to(&two);
    for qpn in [0, 0xFF_FFFF, u32::MAX] {
        let error =
            one.pair.post_send(&Datagram::new(SendData::Inline(b"x"), &ours, qpn, 0)).expect_err("no number");
        assert!(matches!(error, Error::DatagramTo { qpn: named } if named == qpn), "{error}");
    }
    drop(ours);
    let other = one.device.alloc_pd();
    let of_other = other.create_ah_to(one.device.ip()).expect("its own host is always there");
    one.pair.post_send(&Datagram::new(SendData::Inline(b"x"), &of_other, 2, 0).id(4)).expect("posted");
    let failed = complete(&mut one, &two);
    assert_eq!((failed.wr_id, failed.status), (4, WcStatus::LocQpOpErr));
    assert_eq!(one.device.usage().address_handles, 1);
    drop(of_other);
    assert_eq!(one.device.usage().address_handles, 0);
    let nobody = AddressVector { src_ip: one.device.ip(), ..AddressVector::default() };
    assert!(one.pd.create_ah(&nobody).is_err(), "it names no host");
    let foreign =
        AddressVector { src_ip: two.device.ip(), dst_ip: one.device.ip(), ..AddressVector::default() };
    let error = one.pd.create_ah(&foreign).expect_err("not our address").to_string();
    assert!(error.contains("is not the device's own"), "{error}");
}

#[test]
fn the_general_services_queue_pair_is_number_one_and_the_only_one() {
    let [mut one, mut two] = hosts(Driver::Inline, "general");
    let build = |host: &Host| host.pd.ud_queue_pair(&host.cq, &host.cq).general_services().build();
    let mut first = build(&one).expect("there was none");
    let error = build(&one).err().expect("there is one").to_string();
    assert!(error.contains("all 1 general services queue pairs"), "{error}");
    drop(first);
    first = build(&one).expect("it is gone");
    let mut second = build(&two).expect("one on each device");
    assert_eq!((first.qpn(), second.qpn()), (1, 1));
    let memory = two.memory(256);
    let whole = [memory.slice(..).expect("inside")];
    second.post_recv(&RecvRequest { wr_id: 1, scatter: &whole }).expect("posted");
    let to = one.way_to(&two);
    // Whatever the request says, it uses the well-known key; a queue pair that does not is not
    // heard.
    one.pair.post_send(&Datagram::new(SendData::Inline(b"?"), &to, 1, 0)).expect("posted");
    two.sees(&one, "Q_Key", |counters| counters.drop_qkey == 1);
    first.post_send(&Datagram::new(SendData::Inline(b"!"), &to, 1, 0)).expect("posted");
    let done = complete(&mut two, &one);
    assert_eq!((done.wr_id, done.qpn, done.src_qp), (1, 1, 1));
    assert_eq!(one.cq.poll(), None);
}

#[test]
fn a_service_refuses_what_it_does_not_carry() {
    let host = open(Driver::Inline, "sim:services");
    let pair = |qp_type| host.pd.queue_pair(&host.cq, &host.cq).create_of(qp_type).expect("a queue pair");
    let to = host.pd.create_ah_to(host.device.ip()).expect("an address handle");
    let datagram = Datagram::new(SendData::Inline(b"x"), &to, 2, 0);
    for qp_type in [QpType::Rc, QpType::Uc] {
        let error = pair(qp_type).post_datagram(&datagram).expect_err("it has a peer").to_string();
        assert_eq!(
            error,
            format!("a queue pair of type {qp_type} takes no datagrams; create one of the other type")
        );
    }
    let error = pair(QpType::Ud).post_send(&SendRequest::send(SendData::Inline(b"x"))).expect_err("to whom?");
    assert!(matches!(error, Error::WrongService { qp_type: QpType::Ud, .. }), "{error}");
}

#[test]
fn a_full_queue_empties_turn_by_turn() {
    let [mut one, mut two] = hosts(Driver::Inline, "full");
    let caps = QueueCaps { max_send_wr: 100, max_recv_wr: 200, ..QueueCaps::default() };
    one.pair = one.pd.ud_queue_pair(&one.cq, &one.cq).caps(caps).build().expect("a queue pair");
    two.pair = two.pd.ud_queue_pair(&two.cq, &two.cq).caps(caps).qkey(QKEY).build().expect("a queue pair");
    let memory = two.memory(48);
    for wr_id in 0..100 {
        two.receive(wr_id, &[memory.slice(..).expect("inside")]);
    }
    let to = one.way_to(&two);
    for number in 0..100_u64 {
        let text = number.to_le_bytes();
        // The first one goes out at once: the queue pair was idle.
        one.pair
            .post_send(
                &Datagram::new(SendData::Inline(&text), &to, two.pair.qpn(), QKEY).id(number).signaled(),
            )
            .expect("there is room");
    }
    for number in 0..100 {
        let done = complete(&mut one, &two);
        assert_eq!((done.wr_id, done.status), (number, WcStatus::Success));
    }
    for number in 0..100 {
        let done = complete(&mut two, &one);
        assert_eq!((done.wr_id, done.status), (number, WcStatus::Success), "in the order of sending");
    }
    assert_eq!((one.pair.outstanding(), one.device.counters().tx_unreliable), (0, 100));
    assert_eq!(two.device.counters().rx_unreliable, 100);
}
