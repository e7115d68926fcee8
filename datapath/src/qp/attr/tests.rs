use super::*;
use core::net::Ipv6Addr;
use proptest::prelude::*;

fn v4(d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, d))
}

/// Every attribute valid.
fn valid() -> QpAttr {
    QpAttr {
        av: AddressVector { src_ip: v4(1), dst_ip: v4(2), ..AddressVector::default() },
        dest_qpn: 0x12_3456,
        ..QpAttr::default()
    }
}

/// `attr` is refused with `mask`, and only because of `mask`; returns the message.
fn refused(attr: QpAttr, mask: QpAttrMask) -> String {
    assert_eq!(attr.validate(QpAttrMask::all().difference(mask)), Ok(()), "{mask} alone must decide");
    let error = attr.validate(mask).unwrap_err();
    assert_eq!(attr.validate(QpAttrMask::all()), Err(error));
    error.to_string()
}

#[test]
fn a_valid_set_passes_and_defaults_name_no_peer() {
    assert_eq!(valid().validate(QpAttrMask::all()), Ok(()));
    assert_eq!(QpAttr::default().validate(QpAttrMask::empty()), Ok(()));
    let no_peer = QpAttr::default();
    let address = AttrError::NotUnicast { field: "src_ip", ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    assert_eq!(no_peer.validate(QpAttrMask::AV), Err(address));
    assert!(no_peer.validate(QpAttrMask::DEST_QPN).is_err());
    let rest = QpAttrMask::all().difference(QpAttrMask::AV | QpAttrMask::DEST_QPN);
    assert_eq!(no_peer.validate(rest), Ok(()));
}

/// Sets one attribute of a set.
type Setter = fn(&mut QpAttr, u32);

#[test]
#[expect(clippy::cast_possible_truncation, reason = "every value used fits the field it is written to")]
fn each_number_is_held_to_its_range() {
    let cases: [(QpAttrMask, u32, u32, u32, Setter); 13] = [
        (QpAttrMask::PORT, 1, 1, 255, |a, v| a.port_num = v as u8),
        (QpAttrMask::DEST_QPN, 1, 0xFF_FFFE, u32::MAX, |a, v| a.dest_qpn = v),
        (QpAttrMask::RQ_PSN, 0, 0xFF_FFFF, u32::MAX, |a, v| a.rq_psn = v),
        (QpAttrMask::SQ_PSN, 0, 0xFF_FFFF, u32::MAX, |a, v| a.sq_psn = v),
        (QpAttrMask::TIMEOUT, 0, 31, 255, |a, v| a.timeout = v as u8),
        (QpAttrMask::RETRY_CNT, 0, 7, 255, |a, v| a.retry_cnt = v as u8),
        (QpAttrMask::RNR_RETRY, 0, 7, 255, |a, v| a.rnr_retry = v as u8),
        (QpAttrMask::MIN_RNR_TIMER, 0, 31, 255, |a, v| a.min_rnr_timer = v as u8),
        (QpAttrMask::SCHEDULING, 1, 64, 255, |a, v| a.scheduling.weight = v as u8),
        (QpAttrMask::SCHEDULING, 0, 7, 255, |a, v| a.scheduling.priority = v as u8),
        (QpAttrMask::CONGESTION, 0, 4_194_240, u32::MAX, |a, v| a.congestion_tuning.rtt_reference_ns = v),
        (QpAttrMask::CONGESTION, 1, 4_194_240, u32::MAX, |a, v| a.congestion_tuning.fabric_target_ns = v),
        (QpAttrMask::CONGESTION, 1, 4_194_240, u32::MAX, |a, v| a.congestion_tuning.host_target_ns = v),
    ];
    for (attribute, min, max, highest, set) in cases {
        let with = |value| {
            let mut attr = valid();
            set(&mut attr, value);
            attr
        };
        for good in [min, max] {
            assert_eq!(with(good).validate(QpAttrMask::all()), Ok(()), "{attribute} {good}");
        }
        for bad in [min.checked_sub(1), Some(max + 1), Some(highest)].into_iter().flatten() {
            let message = refused(with(bad), attribute);
            assert_eq!(message, format!("{attribute} is {bad}; allowed are {min} to {max}"));
        }
    }
}

#[test]
fn an_address_vector_is_held_to_its_ranges() {
    let with = |change: fn(&mut AddressVector)| {
        let mut attr = valid();
        change(&mut attr.av);
        attr
    };
    for good in [
        with(|av| av.dst_ip = av.src_ip),
        with(|av| av.dst_mac = Some([2, 0, 0, 0, 0, 1])),
        with(|av| (av.dscp, av.hop_limit, av.flow_label) = (63, 255, 0xF_FFFF)),
        with(|av| av.hop_limit = 1),
        with(|av| {
            av.src_ip = IpAddr::V6(Ipv6Addr::LOCALHOST);
            av.dst_ip = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
        }),
    ] {
        assert_eq!(good.validate(QpAttrMask::all()), Ok(()), "{:?}", good.av);
    }
    let bad = [
        with(|av| av.src_ip = IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        with(|av| av.dst_ip = IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1))),
        with(|av| av.dst_ip = IpAddr::V4(Ipv4Addr::BROADCAST)),
        with(|av| av.dst_ip = IpAddr::V6(Ipv6Addr::LOCALHOST)),
        with(|av| av.dst_mac = Some([0; 6])),
        with(|av| av.dst_mac = Some([0xFF; 6])),
        with(|av| av.dscp = 64),
        with(|av| av.hop_limit = 0),
        with(|av| av.flow_label = 0x10_0000),
    ];
    let messages: Vec<String> = bad.into_iter().map(|attr| refused(attr, QpAttrMask::AV)).collect();
    insta::assert_snapshot!("address_vector", messages.join("\n"));
}

#[test]
fn remote_writes_and_atomics_need_local_write() {
    for bits in 0..32 {
        let flags = Access::from_bits_truncate(bits);
        let attr = QpAttr { access_flags: flags, ..valid() };
        let bad = flags.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC)
            && !flags.contains(Access::LOCAL_WRITE);
        let expected = if bad { Err(AttrError::InconsistentAccess(flags)) } else { Ok(()) };
        assert_eq!(attr.validate(QpAttrMask::ACCESS_FLAGS), expected);
    }
}

#[test]
fn the_invalid_partition_key_is_refused_with_either_membership_bit() {
    for pkey in [0, 0x8000] {
        refused(QpAttr { pkey, ..valid() }, QpAttrMask::PKEY_INDEX);
    }
    for pkey in [1, 0x7FFF, 0x8001] {
        assert_eq!(QpAttr { pkey, ..valid() }.validate(QpAttrMask::all()), Ok(()));
    }
}

#[test]
fn selective_repeat_needs_the_srnic_dialect() {
    let both = QpAttrMask::WIRE_MODE | QpAttrMask::RECOVERY;
    let plain = QpAttr { wire_mode: WireMode::Plain, ..valid() };
    assert_eq!(plain.validate(both), Err(AttrError::SelectiveRepeatOnPlain));
    assert_eq!(plain.validate(QpAttrMask::WIRE_MODE), Ok(()));
    assert_eq!(QpAttr { recovery: RecoveryPolicy::GoBackN, ..plain }.validate(both), Ok(()));
    assert_eq!(QpAttr { recovery: RecoveryPolicy::GoBackN, ..valid() }.validate(both), Ok(()));
}

#[test]
fn a_keepalive_needs_a_failure_detector() {
    let both = QpAttrMask::KEEPALIVE | QpAttrMask::TIMEOUT;
    let endless = QpAttr { timeout: 0, keepalive_ms: 1, ..valid() };
    assert_eq!(endless.validate(both), Err(AttrError::KeepaliveWithoutTimeout));
    assert_eq!(endless.validate(QpAttrMask::KEEPALIVE), Ok(()));
    assert_eq!(QpAttr { keepalive_ms: 0, ..endless }.validate(both), Ok(()));
    assert_eq!(QpAttr { keepalive_ms: u32::MAX, ..valid() }.validate(both), Ok(()));
}

#[test]
fn bits_that_name_nothing_are_refused() {
    let mask = QpAttrMask::STATE | QpAttrMask::from_bits_retain(1 << 14 | 1 << 25);
    assert_eq!(valid().validate(mask), Err(AttrError::UnknownAttributes { bits: 0x0200_4000 }));
}

/// The values of `ibv_qp_attr_mask`.
#[test]
fn the_bits_are_those_of_verbs() {
    let verbs = [
        (QpAttrMask::STATE, 0x1),
        (QpAttrMask::CUR_STATE, 0x2),
        (QpAttrMask::EN_SQD_ASYNC_NOTIFY, 0x4),
        (QpAttrMask::ACCESS_FLAGS, 0x8),
        (QpAttrMask::PKEY_INDEX, 0x10),
        (QpAttrMask::PORT, 0x20),
        (QpAttrMask::QKEY, 0x40),
        (QpAttrMask::AV, 0x80),
        (QpAttrMask::PATH_MTU, 0x100),
        (QpAttrMask::TIMEOUT, 0x200),
        (QpAttrMask::RETRY_CNT, 0x400),
        (QpAttrMask::RNR_RETRY, 0x800),
        (QpAttrMask::RQ_PSN, 0x1000),
        (QpAttrMask::MAX_QP_RD_ATOMIC, 0x2000),
        (QpAttrMask::MIN_RNR_TIMER, 0x8000),
        (QpAttrMask::SQ_PSN, 0x1_0000),
        (QpAttrMask::MAX_DEST_RD_ATOMIC, 0x2_0000),
        (QpAttrMask::DEST_QPN, 0x10_0000),
    ];
    for (mask, bits) in verbs {
        assert_eq!(mask.bits(), bits, "{mask}");
    }
}

proptest! {
    /// An attribute outside the mask never matters, and validating changes nothing.
    #[test]
    fn fields_outside_the_mask_are_ignored(timeout: u8, retry_cnt: u8, dest_qpn: u32, sq_psn: u32, pkey: u16) {
        let attr = QpAttr { timeout, retry_cnt, dest_qpn, sq_psn, pkey, ..valid() };
        let changed = QpAttrMask::TIMEOUT
            | QpAttrMask::RETRY_CNT
            | QpAttrMask::DEST_QPN
            | QpAttrMask::SQ_PSN
            | QpAttrMask::PKEY_INDEX;
        prop_assert_eq!(attr.validate(QpAttrMask::all().difference(changed)), Ok(()));
        let valid = timeout <= 31
            && retry_cnt <= 7
            && (1..0xFF_FFFF).contains(&dest_qpn)
            && sq_psn <= 0xFF_FFFF
            && pkey & 0x7FFF != 0;
        prop_assert_eq!(attr.validate(changed).is_ok(), valid);
    }
}
