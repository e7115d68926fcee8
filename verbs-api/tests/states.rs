//! The states of a queue pair as `ibv_modify_qp` has them (protocol.md 1.9, written out here once
//! more), its attributes, and those of the port.

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;
#[path = "support/wait.rs"]
mod wait;

use verbs_api::{
    Access, AddressHandle, AddressVector, AsyncEvent, Completion, CompletionQueue, CongestionAlgorithm,
    Datagram, Device, Driver, Error, ManualQueuePair, Pmtu, PostError, ProtectionDomain, QpAttr, QpAttrMask,
    QpState, QpType, RecoveryPolicy, RecvRequest, SendData, SendRequest, Sge, WcStatus, WireMode,
};

use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
use QpType::{Rc, Uc, Ud};

struct Host {
    device: Device,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    pair: ManualQueuePair,
}

fn host(driver: Driver, name: &str) -> Host {
    let device = Device::builder().driver(driver).open(&format!("sim:{name}-{driver:?}")).expect("a device");
    let (pd, cq) = (device.alloc_pd(), device.create_cq(64).expect("a queue"));
    let pair = pd.queue_pair(&cq, &cq).create().expect("a queue pair");
    Host { device, pd, cq, pair }
}

/// A host with a queue pair of the given type.
fn host_of(qp_type: QpType, name: &str) -> Host {
    let mut host = host(Driver::Inline, name);
    host.pair = host.pd.queue_pair(&host.cq, &host.cq).create_of(qp_type).expect("a queue pair");
    host
}

/// Attributes of a connection from `from` to `to`; which of them count, a mask says.
fn attributes(from: &Host, to: &Host) -> QpAttr {
    QpAttr {
        access_flags: Access::LOCAL_WRITE | Access::REMOTE_WRITE,
        av: AddressVector {
            src_ip: from.device.ip(),
            dst_ip: to.device.ip(),
            dst_mac: Some(to.device.mac()),
            ..AddressVector::default()
        },
        dest_qpn: to.pair.qpn(),
        rq_psn: to.pair.qpn() ^ 0x55,
        sq_psn: from.pair.qpn() ^ 0x55,
        timeout: 18,
        congestion: CongestionAlgorithm::Fixed,
        ..QpAttr::default()
    }
}

/// What a transition must have set, besides STATE.
fn required(qp_type: QpType, from: QpState, to: QpState) -> Option<QpAttrMask> {
    let mask = |names: &[QpAttrMask]| Some(names.iter().copied().collect());
    let connects = [QpAttrMask::AV, QpAttrMask::PATH_MTU, QpAttrMask::DEST_QPN, QpAttrMask::RQ_PSN];
    match (qp_type, from, to) {
        (_, _, Reset | Err) | (_, Rts, Sqd | Rts) | (_, Sqd, Rts | Sqd) | (_, Init, Init) => mask(&[]),
        (Uc | Ud, Sqe, Rts) | (Ud, Init, Rtr) => mask(&[]),
        (Ud, Reset, Init) => mask(&[QpAttrMask::PKEY_INDEX, QpAttrMask::PORT, QpAttrMask::QKEY]),
        (_, Reset, Init) => mask(&[QpAttrMask::PKEY_INDEX, QpAttrMask::PORT, QpAttrMask::ACCESS_FLAGS]),
        (Uc, Init, Rtr) => mask(&connects),
        (Rc, Init, Rtr) => {
            mask(&connects).map(|mask| mask | QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER)
        }
        (Uc | Ud, Rtr, Rts) => mask(&[QpAttrMask::SQ_PSN]),
        (Rc, Rtr, Rts) => mask(&[
            QpAttrMask::TIMEOUT,
            QpAttrMask::RETRY_CNT,
            QpAttrMask::RNR_RETRY,
            QpAttrMask::SQ_PSN,
            QpAttrMask::MAX_QP_RD_ATOMIC,
        ]),
        _ => None,
    }
}

fn go(pair: &mut ManualQueuePair, attr: &QpAttr, to: QpState) {
    let mask = required(pair.qp_type(), pair.state(), to).expect("there is such a transition");
    pair.modify(&QpAttr { state: to, ..*attr }, mask | QpAttrMask::STATE).expect("it has what it needs");
    assert_eq!((pair.state(), pair.query().state, pair.query().cur_state), (to, to, to));
}

/// Takes both to RTS.
fn connect([one, two]: &mut [Host; 2]) -> [QpAttr; 2] {
    let attrs = [attributes(one, two), attributes(two, one)];
    for state in [Init, Rtr, Rts] {
        go(&mut one.pair, &attrs[0], state);
        go(&mut two.pair, &attrs[1], state);
    }
    attrs
}

/// A queue pair has the path MTU that it is given, or an error (protocol.md 2.3).
#[test]
fn plain_rocev2_lacks_the_path_mtu_of_the_dialect() {
    let mut hosts = [(); 2].map(|()| host(Driver::Inline, "dialect-mtu"));
    let attr = QpAttr { path_mtu: Pmtu::B1408, ..attributes(&hosts[0], &hosts[1]) };
    let plain = QpAttr { wire_mode: WireMode::Plain, recovery: RecoveryPolicy::GoBackN, ..attr };
    let pair = &mut hosts[0].pair;
    go(pair, &attr, Init);
    let mask = required(pair.qp_type(), Init, Rtr).expect("it is possible") | QpAttrMask::STATE;
    let mask = mask | QpAttrMask::WIRE_MODE | QpAttrMask::RECOVERY;
    let before = pair.query();
    let error = pair.modify(&QpAttr { state: Rtr, ..plain }, mask).expect_err("of the dialect").to_string();
    assert!(error.contains("no path MTU of 1408") && error.contains("1024"), "{error}");
    assert_eq!(pair.query(), before);
    pair.modify(&QpAttr { state: Rtr, path_mtu: Pmtu::B1024, ..plain }, mask).expect("it has that");
    go(pair, &attr, Reset);
    go(pair, &attr, Init);
    pair.modify(&QpAttr { state: Rtr, ..attr }, mask).expect("the dialect has it");
    assert_eq!(pair.query().path_mtu, Pmtu::B1408);
}

fn complete(host: &mut Host, other: &Host) -> Completion {
    wait::completion(&mut host.cq, &other.device)
}

fn event(host: &Host, other: &Host) -> AsyncEvent {
    wait::until("an event", || {
        for host in [host, other] {
            host.device.progress();
        }
        host.device.poll_event()
    })
}

fn nothing() -> SendRequest<'static> {
    SendRequest::send(SendData::Inline(&[])).signaled()
}

const NO_SGE: RecvRequest<'static> = RecvRequest { wr_id: 0, scatter: &[] };

/// Every state to every state, with every mask that lacks one attribute or has one too many:
/// refused by name, and nothing changes.
#[test]
fn a_transition_needs_its_mask_and_changes_nothing_without() {
    for qp_type in QpType::ALL {
        every_transition(qp_type);
    }
}

/// A send that cannot be sent takes UC and UD to SQE.
fn break_sends(host: &mut Host, attr: &QpAttr) {
    [Init, Rtr, Rts].iter().for_each(|state| go(&mut host.pair, attr, *state));
    let _to = spoil_a_send(host, 0);
    let failed = wait::until("a failure", || host.cq.poll());
    assert_eq!((failed.status, host.pair.state()), (WcStatus::LocProtErr, Sqe));
}

/// Posts what cannot be sent. A datagram's handle is needed until it completes.
fn spoil_a_send(host: &mut Host, wr_id: u64) -> AddressHandle {
    let gone = [Sge { addr: 0, length: 1, lkey: 0 }];
    let to = host.pd.create_ah_to(host.device.ip()).expect("its own host");
    let posted = match host.pair.qp_type() {
        Ud => host.pair.post_datagram(&Datagram::new(SendData::Gather(&gone), &to, 2, 0).id(wr_id)),
        _ => host.pair.post_send(&SendRequest::send(SendData::Gather(&gone)).id(wr_id)),
    };
    posted.expect("keys are checked by the engine");
    to
}

fn every_transition(qp_type: QpType) {
    let hosts = &mut ["one", "two"].map(|_| host_of(qp_type, "masks"));
    let attr = attributes(&hosts[0], &hosts[1]);
    // What no transition of that type takes.
    let alien = if qp_type == Ud { QpAttrMask::ACCESS_FLAGS } else { QpAttrMask::QKEY };
    for (from, way) in [
        (Reset, &[][..]),
        (Init, &[Init]),
        (Rtr, &[Init, Rtr]),
        (Rts, &[Init, Rtr, Rts]),
        (Sqd, &[Init, Rtr, Rts, Sqd]),
        (Sqe, &[]),
        (Err, &[Err]),
    ] {
        if from == Sqe && qp_type == Rc {
            continue;
        }
        for to in QpState::ALL {
            go(&mut hosts[0].pair, &attr, Reset);
            if from == Sqe {
                break_sends(&mut hosts[0], &attr);
            }
            let pair = &mut hosts[0].pair;
            way.iter().for_each(|state| go(pair, &attr, *state));
            let before = pair.query();
            let attr = QpAttr { state: to, ..attr };
            let mut refused = |mask: QpAttrMask, why: &str| {
                let error = pair.modify(&attr, mask).expect_err(why).to_string();
                assert!(error.contains(why), "{from} to {to} with {mask}: {error}");
                assert_eq!(pair.query(), before, "{from} to {to} with {mask}");
            };
            let Some(mask) = required(qp_type, from, to) else {
                refused(QpAttrMask::STATE, &format!("cannot go from {from} to {to}"));
                continue;
            };
            for missing in mask.iter() {
                let name = format!("missing {missing}: set them");
                refused(mask.difference(missing) | QpAttrMask::STATE, &name);
            }
            let name = format!("not allowed here {alien}: take them out");
            refused(mask | QpAttrMask::STATE | alien, &name);
            // Nor does it take the state that it is believed to be in if that is another.
            if from != Rtr {
                let wrong = mask | QpAttrMask::STATE | QpAttrMask::CUR_STATE;
                let attr = QpAttr { cur_state: Rtr, ..attr };
                let error = pair.modify(&attr, wrong).expect_err("it is not in RTR").to_string();
                assert!(error.contains("cur_state says RTR"), "{error}");
                assert_eq!(pair.query(), before);
            }
            pair.modify(&attr, mask | QpAttrMask::STATE).expect("all that is required");
            assert_eq!(pair.query().state, to);
        }
    }
}

#[test]
fn a_state_says_what_may_be_posted() {
    let hosts = &mut ["one", "two"].map(|_| host(Driver::Inline, "posting"));
    let attr = attributes(&hosts[0], &hosts[1]);
    let pair = &mut hosts[0].pair;
    let refused = |result: Result<(), Error>, state| {
        let error = result.expect_err("refused");
        assert!(
            matches!(error, Error::Post(PostError::WrongState { state: is, .. }) if is == state),
            "{error}"
        );
    };
    refused(pair.post_recv(&NO_SGE), Reset);
    refused(pair.post_send(&nothing()), Reset);
    for state in [Init, Rtr] {
        go(pair, &attr, state);
        pair.post_recv(&NO_SGE).expect("receives may be posted");
        refused(pair.post_send(&nothing()), state);
    }
    for state in [Rts, Sqd] {
        go(pair, &attr, state);
        pair.post_recv(&NO_SGE).expect("everything may be posted");
        pair.post_send(&nothing()).expect("everything may be posted");
    }
    // In ERR, all of it comes back, and what is posted now, too.
    go(pair, &attr, Err);
    pair.post_recv(&NO_SGE).expect("it will be flushed");
    pair.post_send(&nothing()).expect("it will be flushed");
    let [one, two] = hosts;
    for _ in 0..8 {
        assert_eq!(complete(one, two).status, WcStatus::WrFlushErr);
    }
    // RESET forgets without a completion.
    one.pair.modify(&QpAttr::default(), QpAttrMask::STATE).expect("always possible");
    one.device.progress();
    assert_eq!(one.cq.poll(), None);
    let sqe = QpAttr { state: Sqe, ..attr };
    one.pair.modify(&sqe, QpAttrMask::STATE).expect_err("RC has no such state");
}

with_all_drivers! {

fn a_drained_queue_says_so_and_goes_on(driver: Driver) {
    let hosts = &mut ["one", "two"].map(|_| host(driver, "drained"));
    let [attr, _] = connect(hosts);
    let [one, two] = hosts;
    for _ in 0..2 {
        two.pair.post_recv(&NO_SGE).expect("posted");
    }
    one.pair.post_send(&nothing().id(1)).expect("posted");
    let sqd = QpAttr { state: Sqd, en_sqd_async_notify: true, ..attr };
    one.pair.modify(&sqd, QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY).expect("RTS to SQD");
    assert_eq!(event(one, two), AsyncEvent::SqDrained { qpn: one.pair.qpn() });
    // A request of its own turn waits until the queue goes on.
    one.pair.post_send(&nothing().id(2)).expect("posted");
    one.pair.modify(&QpAttr { rnr_retry: 3, ..sqd }, QpAttrMask::RNR_RETRY).expect("SQD takes it");
    assert_eq!((one.pair.query().rnr_retry, one.pair.query().timeout), (3, 18));
    go(&mut one.pair, &attr, Rts);
    for wr_id in [1, 2] {
        let done = complete(one, two);
        assert_eq!((done.wr_id, done.status), (wr_id, WcStatus::Success));
    }
}

/// SQD and SQE of UC and UD: in SQD nothing is sent, and what comes is taken; in SQE what is posted
/// is flushed, and what comes is taken; back in RTS everything is as before.
fn unreliable_queue_pairs_stop_sending_and_go_on(driver: Driver) {
    for qp_type in [Uc, Ud] {
        let hosts = &mut ["one", "two"].map(|_| host(driver, "stopping"));
        for host in hosts.iter_mut() {
            host.pair = host.pd.queue_pair(&host.cq, &host.cq).create_of(qp_type).expect("a queue pair");
        }
        let [attr, its] = connect(hosts);
        let [one, two] = hosts;
        let areas = [&*one, &*two].map(|host| host.pd.register(64, Access::LOCAL_WRITE).expect("memory"));
        let post = |from: &mut Host, to: &Host, way: &AddressVector, wr_id| {
            let way = from.pd.create_ah(way).expect("an address handle");
            let datagram = Datagram::new(SendData::Inline(&[]), &way, to.pair.qpn(), 0);
            let posted = match qp_type {
                Ud => from.pair.post_datagram(&datagram.signaled().id(wr_id)),
                _ => from.pair.post_send(&nothing().id(wr_id)),
            };
            posted.expect("posted");
            way
        };
        let receive = |host: &mut Host, area: usize, wr_id| {
            let scatter = [areas[area].slice(..).expect("all of it")];
            host.pair.post_recv(&RecvRequest { wr_id, scatter: &scatter }).expect("posted");
        };
        let ends = |host: &mut Host, other: &Host, expected| {
            let done = complete(host, other);
            assert_eq!((done.wr_id, done.status), expected, "{qp_type}");
        };

        let sqd = QpAttr { state: Sqd, en_sqd_async_notify: true, ..attr };
        one.pair.modify(&sqd, QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY).expect("RTS to SQD");
        assert_eq!(event(one, two), AsyncEvent::SqDrained { qpn: one.pair.qpn() });
        let _way = post(one, two, &attr.av, 1);
        receive(one, 0, 2);
        let _back = post(two, one, &its.av, 3);
        ends(two, one, (3, WcStatus::Success));
        ends(one, two, (2, WcStatus::Success));
        assert_eq!((one.cq.poll(), one.pair.outstanding()), (None, 1), "{qp_type}: nothing is sent in SQD");
        receive(two, 1, 4);
        go(&mut one.pair, &attr, Rts);
        ends(one, two, (1, WcStatus::Success));
        ends(two, one, (4, WcStatus::Success));

        let _to = spoil_a_send(one, 5);
        ends(one, two, (5, WcStatus::LocProtErr));
        assert_eq!(one.pair.state(), Sqe);
        let _way = post(one, two, &attr.av, 6);
        ends(one, two, (6, WcStatus::WrFlushErr));
        receive(one, 0, 7);
        let _back = post(two, one, &its.av, 8);
        ends(two, one, (8, WcStatus::Success));
        ends(one, two, (7, WcStatus::Success));
        go(&mut one.pair, &attr, Rts);
        receive(two, 1, 9);
        let _way = post(one, two, &attr.av, 10);
        ends(one, two, (10, WcStatus::Success));
        ends(two, one, (9, WcStatus::Success));
        assert_eq!((one.device.poll_event(), two.device.poll_event()), (None, None), "{qp_type}");
    }
}

/// The first packet for a connection in RTR is an event, once in each life; datagrams have no
/// connection.
fn the_first_packet_in_rtr_is_told_of(driver: Driver) {
    for qp_type in QpType::ALL {
        let hosts = &mut ["one", "two"].map(|_| host(driver, "first"));
        for host in hosts.iter_mut() {
            host.pair = host.pd.queue_pair(&host.cq, &host.cq).create_of(qp_type).expect("a queue pair");
        }
        for life in 0..2 {
            let [attr, its] = [attributes(&hosts[0], &hosts[1]), attributes(&hosts[1], &hosts[0])];
            let [one, two] = &mut *hosts;
            [Init, Rtr, Rts].iter().for_each(|state| go(&mut one.pair, &attr, *state));
            [Init, Rtr].iter().for_each(|state| go(&mut two.pair, &its, *state));
            assert_eq!(two.device.poll_event(), None);
            let to = one.pd.create_ah(&attr.av).expect("an address handle");
            let area = two.pd.register(64, Access::LOCAL_WRITE).expect("memory");
            for wr_id in 0..2 {
                let scatter = [area.slice(..).expect("all of it")];
                two.pair.post_recv(&RecvRequest { wr_id, scatter: &scatter }).expect("posted");
                match qp_type {
                    Ud => one.pair.post_datagram(
                        &Datagram::new(SendData::Inline(&[]), &to, two.pair.qpn(), its.qkey).signaled(),
                    ),
                    _ => one.pair.post_send(&nothing()),
                }
                .expect("posted");
                let [received, sent] = [complete(two, one), complete(one, two)];
                assert_eq!([received.status, sent.status], [WcStatus::Success; 2], "{qp_type} {life}");
            }
            if qp_type != Ud {
                assert_eq!(event(two, one), AsyncEvent::CommEstablished { qpn: two.pair.qpn() });
            }
            assert_eq!((two.device.poll_event(), one.device.poll_event()), (None, None), "{qp_type} {life}");
            [one, two].into_iter().for_each(|host| go(&mut host.pair, &attr, Reset));
        }
    }
}

fn a_queue_pair_lives_again_after_reset(driver: Driver) {
    let hosts = &mut ["one", "two"].map(|_| host(driver, "again"));
    for life in 0..20 {
        let attrs = connect(hosts);
        let [one, two] = hosts;
        two.pair.post_recv(&NO_SGE).expect("posted");
        one.pair.post_send(&nothing().id(life)).expect("posted");
        assert_eq!(complete(two, one).status, WcStatus::Success);
        assert_eq!((complete(one, two).wr_id, one.pair.query().dest_qpn), (life, two.pair.qpn()));
        for (host, attr) in [one, two].into_iter().zip(&attrs) {
            go(&mut host.pair, attr, if life % 2 == 0 { Err } else { Reset });
            go(&mut host.pair, attr, Reset);
        }
    }
}

/// More completions than the queue has entries, and nobody polls: the program hears of both queue
/// pair and queue, and what was completed before is there.
fn a_completion_queue_that_runs_over_says_so(driver: Driver) {
    let hosts = &mut ["one", "two"].map(|_| host(driver, "overrun"));
    let small = hosts[1].device.create_cq(4).expect("a queue");
    hosts[1].pair = hosts[1].pd.queue_pair(&small, &small).create().expect("a queue pair");
    hosts[1].cq = small;
    connect(hosts);
    let [one, two] = hosts;
    let entries = two.cq.entries();
    for wr_id in 0..=entries {
        two.pair.post_recv(&RecvRequest { wr_id: wr_id.into(), scatter: &[] }).expect("posted");
    }
    for _ in 0..=entries {
        one.pair.post_send(&nothing()).expect("posted");
    }
    let (cq, qpn) = (two.cq.number(), two.pair.qpn());
    assert_eq!(event(two, one), AsyncEvent::CqOverrun { cq, qpn });
    assert_eq!(event(two, one), AsyncEvent::QpFatal { qpn });
    assert_eq!((two.pair.state(), two.device.counters().drop_cq_overflow), (Err, 1));
    for wr_id in 0..u64::from(entries) {
        let done = two.cq.poll().expect("it was there before");
        assert_eq!((done.wr_id, done.status), (wr_id, WcStatus::Success));
    }
    assert_eq!(two.cq.poll(), None);
}

}

#[test]
fn the_port_says_what_it_is() {
    let device = Device::open("sim:port,ip=10.77.3.4,mtu=1500").expect("a device");
    let port = device.query_port();
    assert_eq!((port.active, port.max_mtu, port.mac), (true, Pmtu::B1024, device.mac()));
    assert_eq!(device.path_mtu_max(), Pmtu::B1408, "verbs have no such path MTU, the SRNIC dialect has");
    assert_eq!((port.gid_tbl_len, port.pkey_tbl_len, port.max_msg_sz), (1, 1, 1 << 31));
    let gid = device.query_gid(0).expect("the device's address");
    assert_eq!(gid, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 77, 3, 4]);
    assert_eq!((device.query_gid(1), device.query_pkey(0), device.query_pkey(1)), (None, Some(0xFFFF), None));
}
