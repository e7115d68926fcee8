//! The other end is Linux: the messages of a capture of rping, as its client and as its server sent
//! them.

#[path = "../../datapath/wire/tests/common/pcap.rs"]
mod pcap;

use rdma_cm::{Agreed, Config, Dialect, Disagreement, Event, Failure, Manager, Terms};
use std::net::IpAddr;
use std::time::Duration;
use wire::cm::{Mad, Message, RejReason};
use wire::encap::ROCE_UDP_PORT;
use wire::{Datagram, Packet, Pmtu, WireMode};

const MS: Duration = Duration::from_millis(1);
/// rping's port.
const PORT: u16 = 7174;
const CLIENT: [u8; 4] = [10, 99, 0, 1];
const SERVER: [u8; 4] = [10, 99, 0, 2];

/// The MADs of the capture: REQ, REP, RTU, DREQ, DREP.
fn rping() -> Vec<Mad> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/rxe/rping.pcap");
    let file = std::fs::read(path).expect("the capture");
    let mads = pcap::read(&file).into_iter().filter_map(|frame| {
        let transport = Datagram::parse(frame, ROCE_UDP_PORT).ok()?.transport;
        let packet = Packet::parse(&frame[transport]).ok()?;
        packet.deth().is_some().then(|| Mad::parse(packet.payload()).expect("a MAD"))
    });
    mads.collect()
}

fn manager(ip: [u8; 4]) -> Manager {
    Manager::new(Config::new(IpAddr::from(ip), 7, [7; 32]))
}

fn terms() -> Terms {
    Terms {
        qpn: 0x123,
        rq_psn: 0x456,
        path_mtu: Pmtu::B4096,
        takes_1408: true,
        responder_resources: 16,
        initiator_depth: 16,
        retry_count: 7,
        rnr_retry_count: 7,
        ack_timeout: 14,
        src_port: None,
        srq: false,
        window: 512,
        strict_placement: false,
        dialect: Dialect::Prefer,
    }
}

/// What two ends agree on of which one is Linux: plain RoCEv2, its path MTU, one READ at a time.
fn plain(remote_qpn: u32, sq_psn: u32, path_mtu: Pmtu) -> Agreed {
    Agreed {
        remote_qpn,
        sq_psn,
        path_mtu,
        initiator_depth: 1,
        responder_resources: 16,
        retry_count: 7,
        rnr_retry_count: 7,
        ack_timeout: 14,
        wire_mode: WireMode::Plain,
        window: None,
        strict_placement: false,
    }
}

#[test]
fn a_client_of_linux_is_accepted() {
    let [req, _, _, dreq, _] = &rping()[..] else { panic!("another capture") };
    let mut cm = manager(SERVER);
    cm.listen(PORT, 1).expect("a listener");
    cm.handle_mad(MS, IpAddr::from(CLIENT), &req.emit());
    let Some(Event::Requested { id, port: PORT }) = cm.poll_event() else { panic!("no request") };
    let request = cm.request(id).expect("it waits");
    assert_eq!((request.peer, request.offer), ("10.99.0.1:37499".parse().expect("an address"), None));
    assert_eq!((request.path_mtu, request.private_data), (Pmtu::B1024, [0; 56]));
    let agreed = cm.accept(MS, id, &terms(), b"").expect("accepted");
    assert_eq!(
        agreed,
        Agreed { responder_resources: 1, ack_timeout: 19, ..plain(0x11, 0x20_fb47, Pmtu::B1024) }
    );

    let rep = cm.poll_transmit().expect("a REP");
    let rep = Mad::parse(&rep.mad[..]).expect("a MAD");
    assert_eq!((rep.tid, rep.attr_mod), (req.tid, 0), "no options for who offers none");
    let Message::Rep(rep) = rep.message else { panic!("no REP") };
    assert_eq!((rep.remote_comm_id, rep.vendor_id, rep.qpn), (0xba12_8255, 0, 0x123));
    assert_eq!((rep.responder_resources, rep.initiator_depth), (1, 1));

    // The capture's messages name the number of another server; this is what Linux would say to us.
    let Message::Dreq(mut end) = dreq.message.clone() else { panic!("no DREQ") };
    (end.remote_comm_id, end.remote_qpn) = (id.0, 0x123);
    cm.handle_mad(MS, IpAddr::from(CLIENT), &Mad { message: Message::Dreq(end), ..dreq.clone() }.emit());
    assert_eq!(
        [cm.poll_event(), cm.poll_event()],
        [Some(Event::Established { id }), Some(Event::Disconnected { id })]
    );
}

#[test]
fn a_server_of_linux_grants_plain_connections() {
    let [_, rep, ..] = &rping()[..] else { panic!("another capture") };
    for dialect in [Dialect::Prefer, Dialect::Off, Dialect::Require] {
        let mut cm = manager(CLIENT);
        let id = cm.connect(MS, SERVER.into(), PORT, &Terms { dialect, ..terms() }, b"").expect("begun");
        let Message::Rep(mut granted) = rep.message.clone() else { panic!("no REP") };
        granted.remote_comm_id = id.0;
        cm.handle_mad(
            MS,
            IpAddr::from(SERVER),
            &Mad { message: Message::Rep(granted), ..rep.clone() }.emit(),
        );
        if dialect == Dialect::Require {
            let failure = Failure::Disagreed(Disagreement::Dialect);
            assert_eq!(cm.poll_event(), Some(Event::Failed { id, failure }));
            let rej = core::iter::from_fn(|| cm.poll_transmit()).last().expect("a REJ");
            let Ok(Mad { message: Message::Rej(rej), .. }) = Mad::parse(&rej.mad[..]) else {
                panic!("no REJ")
            };
            assert_eq!(rej.reason, RejReason::VENDOR_OPTION_NOT_SUPPORTED);
            continue;
        }
        let Some(Event::Replied { agreed, .. }) = cm.poll_event() else { panic!("no reply") };
        assert_eq!(agreed, plain(0x11, 0xa6_b7df, Pmtu::B4096));
    }
}
