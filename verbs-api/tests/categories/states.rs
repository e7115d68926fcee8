//! A queue pair's states, one after the other (protocol.md 1.9). That each transition needs its
//! mask and no other exists is in `states.rs` beside this directory.

use crate::host::wait::until;
use crate::host::{Host, complete};
use crate::lan::Lan;
use crate::net::{ALL, nothing};
use verbs_api::{
    AddressVector, AsyncEvent, CongestionAlgorithm, Error, ManualQueuePair, PostError, QpAttr, QpAttrMask,
    QpState, RecvRequest, WcStatus,
};

const RECEIVE: RecvRequest<'static> = RecvRequest { wr_id: 50, scatter: &[] };

struct Life {
    hosts: [Host; 2],
    pairs: [ManualQueuePair; 2],
}

impl Life {
    fn new(lan: Lan) -> Self {
        let hosts = lan.hosts();
        let pairs = hosts
            .each_ref()
            .map(|host| host.pd.queue_pair(&host.cq, &host.cq).create().expect("a queue pair"));
        Self { hosts, pairs }
    }

    fn attr(&self, side: usize) -> QpAttr {
        let (here, there) = (&self.hosts[side].device, &self.hosts[1 - side].device);
        QpAttr {
            access_flags: ALL,
            av: AddressVector {
                src_ip: here.ip(),
                dst_ip: there.ip(),
                dst_mac: Some(there.mac()),
                ..AddressVector::default()
            },
            dest_qpn: self.pairs[1 - side].qpn(),
            rq_psn: self.pairs[1 - side].qpn(),
            sq_psn: self.pairs[side].qpn(),
            timeout: 18,
            congestion: CongestionAlgorithm::Fixed,
            ..QpAttr::default()
        }
    }

    fn go(&mut self, side: usize, state: QpState) {
        let names: &[QpAttrMask] = match state {
            QpState::Init => &[QpAttrMask::PKEY_INDEX, QpAttrMask::PORT, QpAttrMask::ACCESS_FLAGS],
            QpState::Rtr => &[
                QpAttrMask::AV,
                QpAttrMask::PATH_MTU,
                QpAttrMask::DEST_QPN,
                QpAttrMask::RQ_PSN,
                QpAttrMask::MAX_DEST_RD_ATOMIC,
                QpAttrMask::MIN_RNR_TIMER,
                QpAttrMask::CONGESTION,
            ],
            QpState::Rts if self.pairs[side].state() == QpState::Rtr => &[
                QpAttrMask::TIMEOUT,
                QpAttrMask::RETRY_CNT,
                QpAttrMask::RNR_RETRY,
                QpAttrMask::SQ_PSN,
                QpAttrMask::MAX_QP_RD_ATOMIC,
            ],
            QpState::Sqd => &[QpAttrMask::EN_SQD_ASYNC_NOTIFY],
            _ => &[],
        };
        let mask = names.iter().copied().fold(QpAttrMask::STATE, |mask, name| mask | name);
        let attr = QpAttr { state, en_sqd_async_notify: true, ..self.attr(side) };
        self.pairs[side].modify(&attr, mask).expect("a transition with all that it needs");
        assert_eq!(self.pairs[side].state(), state);
    }

    fn ended(&mut self, side: usize) -> (u64, WcStatus) {
        let [one, two] = &mut self.hosts;
        let done = if side == 0 { complete(one, two) } else { complete(two, one) };
        (done.wr_id, done.status)
    }

    fn event(&self, side: usize) -> AsyncEvent {
        until("an event", || {
            self.hosts.iter().for_each(|host| {
                host.device.progress();
            });
            self.hosts[side].device.poll_event()
        })
    }
}

fn refused(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::Post(PostError::WrongState { .. })))
}

on_every_lan! {

/// RESET takes nothing, INIT receives, RTR receives and runs, RTS everything; SQD keeps what is
/// posted, ERR flushes it in order, RESET forgets it, and a new life begins.
fn a_life_from_reset_to_reset(lan: Lan) {
    let mut life = Life::new(lan);
    for _ in 0..3 {
        for pair in &mut life.pairs {
            assert!(refused(pair.post_recv(&RECEIVE)) && refused(pair.post_send(&nothing())), "RESET");
        }
        for side in [0, 1] {
            life.go(side, QpState::Init);
            assert!(refused(life.pairs[side].post_send(&nothing())), "INIT");
        }
        life.pairs[1].post_recv(&RECEIVE).expect("INIT takes receives");
        life.go(1, QpState::Rtr);
        assert!(refused(life.pairs[1].post_send(&nothing())), "RTR");
        life.go(0, QpState::Rtr);
        life.go(0, QpState::Rts);
        // The peer, in RTR, receives.
        life.pairs[0].post_send(&nothing().id(1)).expect("RTS");
        assert_eq!(life.ended(1), (50, WcStatus::Success));
        assert_eq!(life.ended(0), (1, WcStatus::Success));
        assert_eq!(life.event(1), AsyncEvent::CommEstablished { qpn: life.pairs[1].qpn() });
        life.pairs[1].post_recv(&RECEIVE).expect("RTR takes receives");
        life.pairs[0].post_send(&nothing().id(1)).expect("RTS");
        assert_eq!([life.ended(1), life.ended(0)], [(50, WcStatus::Success), (1, WcStatus::Success)]);
        life.go(1, QpState::Rts);
        assert!(life.hosts.iter().all(|host| host.device.poll_event().is_none()), "once in a life");

        life.go(0, QpState::Sqd);
        assert_eq!(life.event(0), AsyncEvent::SqDrained { qpn: life.pairs[0].qpn() });
        life.pairs[1].post_recv(&RECEIVE).expect("RTS");
        life.pairs[0].post_send(&nothing().id(2)).expect("SQD takes requests");
        life.go(0, QpState::Rts);
        assert_eq!([life.ended(1), life.ended(0)], [(50, WcStatus::Success), (2, WcStatus::Success)]);

        for wr_id in 3..6 {
            life.pairs[1].post_recv(&RecvRequest { wr_id, scatter: &[] }).expect("RTS");
        }
        life.go(1, QpState::Err);
        for wr_id in 3..6 {
            assert_eq!(life.ended(1), (wr_id, WcStatus::WrFlushErr));
        }
        life.pairs[1].post_recv(&RECEIVE).expect("ERR takes it");
        assert_eq!(life.ended(1), (50, WcStatus::WrFlushErr));

        life.pairs[0].post_recv(&RECEIVE).expect("RTS");
        for side in [0, 1] {
            life.go(side, QpState::Reset);
        }
        assert!(life.hosts.iter_mut().all(|host| host.cq.poll().is_none()), "RESET completes nothing");
    }
}

/// A mask that lacks something, or a wrong `cur_state`, changes nothing.
fn a_refused_transition_changes_nothing(lan: Lan) {
    let mut life = Life::new(lan);
    let before = life.pairs[0].query();
    let init = QpAttr { state: QpState::Init, ..life.attr(0) };
    let error = life.pairs[0].modify(&init, QpAttrMask::STATE | QpAttrMask::PORT).expect_err("refused");
    assert!(error.to_string().contains("missing"), "{error}");
    let rts = QpAttr { cur_state: QpState::Rts, ..init };
    let all = QpAttrMask::STATE | QpAttrMask::PORT | QpAttrMask::PKEY_INDEX | QpAttrMask::ACCESS_FLAGS;
    assert!(life.pairs[0].modify(&rts, all | QpAttrMask::CUR_STATE).is_err());
    assert_eq!(life.pairs[0].query(), before);
    life.pairs[0].modify(&init, all).expect("as it must be");
    assert_eq!(life.pairs[0].query().access_flags, ALL);
}

}
