//! Messages of the connection manager: those of rping between two Linux hosts, literals, and any
//! bytes at all.

#[path = "common/pcap.rs"]
mod pcap;

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::cm::{
    Drep, Dreq, GSI_QKEY, GSI_QPN, IpCmError, IpCmHeader, MAD_LEN, Mad, MadError, Message, Mra, Refers, Rej,
    RejReason, Rep, Req, Rtu, SidrRep, SidrReq, SidrStatus, TcpPort, UdpPort,
};
use wire::encap::ROCE_UDP_PORT;
use wire::{Datagram, Packet, Pmtu};

/// The MADs of the capture, in order.
fn rping() -> Vec<Vec<u8>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/rxe/rping.pcap");
    let file = std::fs::read(path).unwrap();
    let frames = pcap::read(&file);
    let mads = frames.iter().filter_map(|frame| {
        let transport = Datagram::parse(frame, ROCE_UDP_PORT).ok()?.transport;
        let packet = Packet::parse(&frame[transport]).ok()?;
        let deth = packet.deth()?;
        assert_eq!((packet.dest_qp(), deth.src_qp, deth.qkey), (GSI_QPN, GSI_QPN, GSI_QKEY));
        Some(packet.payload().to_vec())
    });
    mads.collect()
}

#[test]
fn a_connection_of_linux_is_understood_and_emitted_bit_for_bit() {
    let bytes = rping();
    let mads: Vec<Mad> = bytes.iter().map(|mad| Mad::parse(mad).unwrap()).collect();
    let names: Vec<&str> = mads.iter().map(|mad| mad.message.name()).collect();
    assert_eq!(names, ["REQ", "REP", "RTU", "DREQ", "DREP"]);
    for (mad, bytes) in mads.iter().zip(&bytes) {
        assert_eq!(mad.emit()[..], bytes[..], "{}", mad.message.name());
    }

    // What tshark says of the same packets.
    let [Message::Req(req), Message::Rep(rep), Message::Rtu(rtu), Message::Dreq(dreq), Message::Drep(drep)] =
        [0, 1, 2, 3, 4].map(|index: usize| mads[index].message.clone())
    else {
        panic!("other messages");
    };
    assert_eq!(mads[0].tid, 0x2_5582_12ba);
    assert_eq!((req.local_comm_id, TcpPort::of(req.service_id)), (0xba12_8255, Some(TcpPort(0x1c06))));
    assert_eq!((req.qpn, req.starting_psn, req.ca_guid), (0x11, 0x20_fb47, 0x5054_00ff_fe99_0001));
    assert_eq!((req.responder_resources, req.initiator_depth), (1, 1));
    assert_eq!((req.remote_response_timeout, req.local_response_timeout), (0x14, 0x14));
    assert_eq!((req.retry_count, req.rnr_retry_count, req.max_cm_retries), (7, 7, 15));
    assert_eq!((req.transport, req.srq, req.pkey, req.path_mtu()), (0, false, 0xFFFF, Some(Pmtu::B1024)));
    // tshark 4.0 takes the first byte of this word, 0x1d8e_b000, for the rate.
    assert_eq!((req.lids, req.flow_label, req.packet_rate), ([0xFFFF; 2], 0x1_d8eb, 0));
    assert_eq!((req.traffic_class, req.hop_limit, req.ack_timeout), (0, 64, 0x13));
    let [client, server] = [1, 2].map(|host| Ipv4Addr::new(10, 99, 0, host));
    let gids = [client, server].map(|ip| ip.to_ipv6_mapped().octets());
    assert_eq!([req.local_gid, req.remote_gid], gids);
    let (header, program) = IpCmHeader::parse(&req.private_data).unwrap();
    assert_eq!(header, IpCmHeader { src_port: 0x927b, src: client.into(), dst: server.into() });
    assert_eq!(header.emit(&program), req.private_data);

    assert_eq!((rep.local_comm_id, rep.remote_comm_id), (0x1952_9911, 0xba12_8255));
    assert_eq!((rep.qpn, rep.starting_psn, rep.ca_guid), (0x11, 0xa6_b7df, 0x5054_00ff_fe99_0002));
    assert_eq!((rep.responder_resources, rep.initiator_depth, rep.target_ack_delay), (1, 1, 15));
    assert_eq!((rep.rnr_retry_count, rep.srq, rep.vendor_id), (7, false, 0));
    for (local, remote) in
        [(rtu.local_comm_id, rtu.remote_comm_id), (dreq.local_comm_id, dreq.remote_comm_id)]
    {
        assert_eq!((local, remote), (0xba12_8255, 0x1952_9911));
    }
    assert_eq!(dreq.remote_qpn, 0x11);
    assert_eq!((drep.local_comm_id, drep.remote_comm_id), (0x1952_9911, 0xba12_8255));
}

/// The message's bytes that are not zero: `(offset in the message, byte)`.
fn marks(message: Message) -> Vec<(usize, u8)> {
    let mad = Mad { tid: 0x0102_0304_0506_0708, attr_mod: 0x0A0B_0C0D, message };
    let bytes = mad.emit();
    assert_eq!(bytes[..16], [1, 7, 2, 3, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[18..24], [0, 0, 0x0A, 0x0B, 0x0C, 0x0D]);
    assert_eq!(Mad::parse(&bytes), Ok(mad));
    let message = bytes[24..].iter().copied().enumerate();
    message.filter(|(_, byte)| *byte != 0).collect()
}

/// What the capture does not show: the places that protocol.md 1.12 names.
#[test]
fn fields_are_where_the_protocol_has_them() {
    let mut mra_data = [0; Mra::PRIVATE_DATA];
    mra_data[Mra::PRIVATE_DATA - 1] = 9;
    let mra = Mra {
        local_comm_id: 1,
        remote_comm_id: 2,
        refers: Refers::REP,
        service_timeout: 31,
        private_data: mra_data,
    };
    assert_eq!(marks(Message::Mra(Box::new(mra))), [(3, 1), (7, 2), (8, 0x40), (9, 0xF8), (231, 9)]);

    let (mut info, mut data) = ([0; Rej::INFO], [0; Rej::PRIVATE_DATA]);
    (info[0], info[71], data[0], data[147]) = (3, 4, 5, 6);
    let reason = RejReason::VENDOR_OPTION_NOT_SUPPORTED;
    let rej = Rej {
        local_comm_id: 1,
        remote_comm_id: 2,
        refers: Refers::OTHER,
        info_len: 72,
        reason,
        info,
        private_data: data,
    };
    let expected = [(3, 1), (7, 2), (8, 0x80), (9, 144), (11, 35), (12, 3), (83, 4), (84, 5), (231, 6)];
    assert_eq!(marks(Message::Rej(Box::new(rej))), expected);

    let [_, rep, ..] = &rping()[..] else { panic!("no REP") };
    let Ok(Mad { message: Message::Rep(mut rep), .. }) = Mad::parse(rep) else { panic!("no REP") };
    (rep.vendor_id, rep.srq) = (0xAA_BBCC, true);
    let marked = marks(Message::Rep(rep));
    for place in [(15, 0xAA), (19, 0xBB), (23, 0xCC), (27, 0xF0)] {
        assert!(marked.contains(&place), "{place:?} in {marked:?}");
    }

    let [req, ..] = &rping()[..] else { panic!("no REQ") };
    let Ok(Mad { message: Message::Req(mut req), .. }) = Mad::parse(req) else { panic!("no REQ") };
    (req.vendor_id, req.srq, req.transport) = (0xAA_BBCC, true, 3);
    let marked = marks(Message::Req(req));
    for place in [(5, 0xAA), (6, 0xBB), (7, 0xCC), (43, 0xA6), (51, 0xF8)] {
        assert!(marked.contains(&place), "{place:?} in {marked:?}");
    }
}

#[test]
fn what_is_no_message_of_ours_says_why() {
    let good = Mad {
        tid: 1,
        attr_mod: 0,
        message: Message::Drep(Box::new(Drep {
            local_comm_id: 1,
            remote_comm_id: 2,
            private_data: [7; 224],
        })),
    };
    let good = good.emit();
    for len in 0..MAD_LEN {
        assert_eq!(Mad::parse(&good[..len]), Err(MadError::Length(len)));
    }
    assert_eq!(Mad::parse(&[good.as_slice(), &[0]].concat()), Err(MadError::Length(257)));
    for at in 0..4 {
        let mut bad = good;
        bad[at] ^= 0x80;
        assert!(matches!(Mad::parse(&bad), Err(MadError::Header { .. })), "byte {at}");
    }
    for attribute in (0..0x10).chain(0x19..=0x20) {
        let mut bad = good;
        bad[17] = attribute;
        assert_eq!(Mad::parse(&bad), Err(MadError::Attribute(attribute.into())));
    }
}

#[test]
fn an_ip_header_of_either_family() {
    let v6 = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, last));
    let v4 = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let program: [u8; IpCmHeader::PRIVATE_DATA] = core::array::from_fn(|at| u8::try_from(at + 1).unwrap());
    for (src, dst, version) in [(v4(1), v4(2), 0x40), (v6(1), v6(2), 0x60)] {
        let header = IpCmHeader { src_port: 0x1234, src, dst };
        let mut data = header.emit(&program);
        assert_eq!((data[0], data[1], &data[2..4]), (0, version, &[0x12, 0x34][..]));
        assert_eq!(IpCmHeader::parse(&data), Ok((header, program)));
        data[1] = 0x50;
        assert_eq!(IpCmHeader::parse(&data), Err(IpCmError { version: 0, ip_version: 5 }));
        (data[0], data[1]) = (0x10, version);
        assert_eq!(IpCmHeader::parse(&data), Err(IpCmError { version: 0x10, ip_version: version >> 4 }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// Every bit that is read is sent again at its place: from any bytes, what was parsed is what
    /// is parsed again.
    #[test]
    fn any_message_survives_emit_and_parse(
        attribute in 0x10..=0x16u8,
        rest in prop::collection::vec(any::<u8>(), MAD_LEN),
    ) {
        let mut bytes = rest;
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[16..18].copy_from_slice(&[0, attribute]);
        let mad = Mad::parse(&bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let again = mad.emit();
        prop_assert_eq!(Mad::parse(&again), Ok(mad.clone()));
        let private = match &mad.message {
            Message::Req(_) => Req::PRIVATE_DATA,
            Message::Mra(_) => Mra::PRIVATE_DATA,
            Message::Rej(_) => Rej::PRIVATE_DATA + Rej::INFO,
            Message::Rep(_) => Rep::PRIVATE_DATA,
            Message::Rtu(_) => Rtu::PRIVATE_DATA,
            Message::Dreq(_) => Dreq::PRIVATE_DATA,
            Message::Drep(_) => Drep::PRIVATE_DATA,
            Message::SidrReq(_) => SidrReq::PRIVATE_DATA,
            Message::SidrRep(_) => SidrRep::PRIVATE_DATA,
        };
        prop_assert_eq!(&again[MAD_LEN - private..], &bytes[MAD_LEN - private..]);
        prop_assert_eq!(&again[24..32], &[&bytes[24..28], if attribute == 0x10 { &again[28..32] } else { &bytes[28..32] }].concat()[..]);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Mad::parse(&bytes);
    }
}

#[test]
fn a_service_of_rdma_cm_is_a_port_of_its_space() {
    for (port, id) in [(0, 0x0106_0000), (7174, 0x0106_1C06), (0xFFFF, 0x0106_FFFF)] {
        assert_eq!(TcpPort(port).service_id(), id);
        assert_eq!(TcpPort::of(id), Some(TcpPort(port)));
    }
}

#[test]
fn a_service_of_datagrams_is_asked_for_and_found() {
    for (port, id) in [(0, 0x0111_0000), (7174, 0x0111_1C06), (0xFFFF, 0x0111_FFFF)] {
        assert_eq!((UdpPort(port).service_id(), UdpPort::of(id)), (id, Some(UdpPort(port))));
        assert_eq!((TcpPort::of(id), UdpPort::of(TcpPort(port).service_id())), (None, None));
    }
    let header = IpCmHeader {
        src_port: 0x1234,
        src: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        dst: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    };
    let program = core::array::from_fn(|at| u8::try_from(at).unwrap());
    let asked = SidrReq {
        request_id: 0x0102_0304,
        pkey: 0xFFFF,
        service_id: 0x0111_1C06,
        private_data: header.emit_sidr(&program),
    };
    assert_eq!(IpCmHeader::parse_sidr(&asked.private_data), Ok((header, program)));
    let answer = SidrRep {
        request_id: 0x0102_0304,
        status: SidrStatus::REJECTED,
        qpn: 0xAB_CDEF,
        service_id: 0x0111_1C06,
        qkey: 0x0123_4567,
        private_data: core::array::from_fn(|at| u8::try_from(at).unwrap()),
    };
    // The fields stand where IBTA's tables 119 and 120 have them.
    let bytes = Mad { tid: 9, attr_mod: 0, message: Message::SidrReq(Box::new(asked.clone())) }.emit();
    assert_eq!(bytes[16..18], [0, 0x17]);
    assert_eq!(bytes[24..40], [1, 2, 3, 4, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 1, 0x11, 0x1C, 6]);
    assert_eq!(Mad::parse(&bytes).unwrap().message, Message::SidrReq(Box::new(asked)));
    let bytes = Mad { tid: 9, attr_mod: 0, message: Message::SidrRep(Box::new(answer.clone())) }.emit();
    assert_eq!(bytes[16..18], [0, 0x18]);
    assert_eq!(bytes[24..36], [1, 2, 3, 4, 2, 0, 0, 0, 0xAB, 0xCD, 0xEF, 0]);
    assert_eq!(bytes[36..48], [0, 0, 0, 0, 1, 0x11, 0x1C, 6, 1, 0x23, 0x45, 0x67]);
    assert_eq!(Mad::parse(&bytes).unwrap().message, Message::SidrRep(Box::new(answer)));
}

#[test]
fn a_reason_is_told_in_words_or_by_its_number() {
    assert_eq!(RejReason::NO_QP.to_string(), "it has no queue pair to spare");
    assert_eq!(RejReason(99).to_string(), "reason 99");
    let named = (1..=35).map(RejReason).filter(|reason| !reason.to_string().starts_with("reason"));
    assert_eq!(named.map(|reason| reason.0).collect::<Vec<_>>(), [1, 3, 4, 5, 6, 8, 9, 10, 12, 26, 28, 35]);
}

#[test]
fn a_program_has_56_bytes_of_a_request() {
    assert_eq!((IpCmHeader::LEN, IpCmHeader::PRIVATE_DATA), (36, 56));
}
