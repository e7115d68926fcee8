use super::*;

fn endpoint() -> Endpoint {
    Endpoint {
        ip: "10.77.0.1".parse().expect("an address"),
        mac: Some([2, 0, 0, 0, 0, 1]),
        qpn: 0x1A_2B3C,
        psn: 0xF00D,
        path_mtu: Pmtu::B4096,
        window: 512,
        mtu: None,
        rd_atomic: 0,
        wire_mode: WireMode::Srnic,
        strict_placement: false,
        unreliable: false,
    }
}

const TEXT: &str = "srnic1,ip=10.77.0.1,mac=02:00:00:00:00:01,qpn=0x1a2b3c,psn=0x00f00d,pmtu=4096,window=512";

#[test]
fn the_text_is_as_documented_and_reads_back() {
    assert_eq!(endpoint().to_string(), TEXT);
    assert_eq!(TEXT.parse(), Ok(endpoint()));
    let routed = endpoint().routed();
    assert_eq!(routed.to_string().parse(), Ok(routed));
    let v6 = Endpoint { ip: "fd00::1".parse().expect("an address"), ..endpoint() };
    assert_eq!(v6.to_string().parse(), Ok(v6));
    let memif = Endpoint { mtu: Some(4590), ..endpoint() };
    assert_eq!(memif.to_string(), format!("{TEXT},mtu=4590"));
    assert_eq!(memif.to_string().parse(), Ok(memif));
    let reading = Endpoint { rd_atomic: 16, ..memif };
    assert_eq!(reading.to_string(), format!("{TEXT},mtu=4590,rd=16"));
    assert_eq!(reading.to_string().parse(), Ok(reading));
    let plain = Endpoint { wire_mode: WireMode::Plain, ..endpoint() };
    assert_eq!(plain.to_string(), format!("{TEXT},mode=plain"));
    assert_eq!(plain.to_string().parse(), Ok(plain));
    let unknown = format!("{TEXT},mode=fancy").parse::<Endpoint>();
    assert_eq!(unknown, Err(EndpointError::Field { field: "mode" }));
    let strict = Endpoint { strict_placement: true, ..reading };
    assert_eq!(strict.to_string(), format!("{TEXT},mtu=4590,rd=16,order=strict"));
    assert_eq!(strict.to_string().parse(), Ok(strict));
    let loose = format!("{TEXT},order=loose").parse::<Endpoint>();
    assert_eq!(loose, Err(EndpointError::Field { field: "order" }));
    let uc = Endpoint { unreliable: true, ..plain };
    assert_eq!(uc.to_string(), format!("{TEXT},mode=plain,type=uc"));
    assert_eq!(uc.to_string().parse(), Ok(uc));
    let rc = format!("{TEXT},type=rc").parse::<Endpoint>();
    assert_eq!(rc, Err(EndpointError::Field { field: "type" }));
    let too_many = format!("{TEXT},rd=256").parse::<Endpoint>();
    assert_eq!(too_many, Err(EndpointError::Field { field: "rd" }));
    let zero = format!("{TEXT},mtu=0").parse::<Endpoint>();
    assert_eq!(zero, Err(EndpointError::Field { field: "mtu" }));
}

#[test]
fn bytes_read_back() {
    let v6 = Endpoint { ip: "fd00::1".parse().expect("an address"), ..endpoint() };
    let memif = Endpoint { mtu: Some(4590), ..endpoint() };
    let reading = Endpoint { rd_atomic: 255, ..endpoint() };
    let plain = Endpoint { wire_mode: WireMode::Plain, ..endpoint() };
    let strict = Endpoint { strict_placement: true, path_mtu: Pmtu::B256, ..endpoint() };
    let uc = Endpoint { unreliable: true, ..plain };
    for endpoint in [endpoint(), endpoint().routed(), v6, memif, reading, plain, strict, uc] {
        assert_eq!(Endpoint::from_bytes(&endpoint.to_bytes()), Ok(endpoint));
    }
    for pmtu in Pmtu::ALL {
        let endpoint = Endpoint { path_mtu: pmtu, window: 1 << 14, ..endpoint() };
        assert_eq!(Endpoint::from_bytes(&endpoint.to_bytes()), Ok(endpoint));
    }
}

#[test]
fn bytes_of_another_length_version_or_range_are_refused() {
    let bytes = endpoint().to_bytes();
    for len in 0..bytes.len() {
        assert_eq!(Endpoint::from_bytes(&bytes[..len]), Err(EndpointError::Length { given: len }));
    }
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes;
        bytes[at] = byte;
        Endpoint::from_bytes(&bytes)
    };
    assert_eq!(with(3, 2), Err(EndpointError::Version));
    assert_eq!(with(26, 1), Err(EndpointError::Field { field: "qpn" }));
    assert_eq!(with(30, 1), Err(EndpointError::Field { field: "psn" }));
    assert_eq!(with(34, 0x80), Err(EndpointError::Field { field: "window" }));
    assert_eq!(with(36, 0), Err(EndpointError::Field { field: "pmtu" }));
}

#[test]
fn every_field_but_the_ethernet_address_is_needed_once() {
    for field in ["ip", "qpn", "psn", "pmtu", "window"] {
        let start = TEXT.find(&format!(",{field}=")).expect("it is there");
        let len = TEXT[start + 1..].find(',').map_or(TEXT.len() - start, |len| len + 1);
        let without = format!("{}{}", &TEXT[..start], &TEXT[start + len..]);
        assert_eq!(without.parse::<Endpoint>(), Err(EndpointError::Field { field }), "{without}");
        let twice = format!("{TEXT}{}", &TEXT[start..start + len]);
        assert_eq!(twice.parse::<Endpoint>(), Err(EndpointError::Field { field }), "{twice}");
    }
}

#[test]
fn other_text_is_no_endpoint() {
    for text in
        ["", "srnic2,ip=10.77.0.1", "srnic1", "srnic1,", &format!("{TEXT},more=1"), &format!("{TEXT},ip")]
    {
        assert_eq!(text.parse::<Endpoint>(), Err(EndpointError::Version), "{text}");
    }
    for (good, bad, field) in [
        ("qpn=0x1a2b3c", "qpn=0x000000", "qpn"),
        ("qpn=0x1a2b3c", "qpn=12", "qpn"),
        ("qpn=0x1a2b3c", "qpn=0xffffff", "qpn"),
        ("psn=0x00f00d", "psn=0x1000000", "psn"),
        ("pmtu=4096", "pmtu=4000", "pmtu"),
        ("window=512", "window=0", "window"),
        ("mac=02:", "mac=01:", "mac"),
    ] {
        let text = TEXT.replace(good, bad);
        assert_eq!(text.parse::<Endpoint>(), Err(EndpointError::Field { field }), "{text}");
    }
}
