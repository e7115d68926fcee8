use super::*;
use datapath::port::fault::Probability;

fn parse(text: &str) -> DeviceSpec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> String {
    text.parse::<DeviceSpec>().expect_err(text).to_string()
}

#[test]
fn the_defaults_follow_the_role() {
    let spec = parse("memif:/run/a,role=server");
    assert_eq!((spec.max_frame(), spec.hugepages, spec.faults), (4608, Hugepages::Auto, None));
    let [first, second] = [("10.77.0.1", [2, 0, 0, 0, 0, 1]), ("10.77.0.2", [2, 0, 0, 0, 0, 2])];
    for (spec, (ip, mac)) in [
        (spec, first),
        (parse("memif:/run/a").or_role(Role::Client), second),
        (parse("vhost:/run/a").or_role(Role::Client), first),
        (parse("virtio:/run/a").or_role(Role::Server), second),
    ] {
        assert_eq!(spec.ip_or_default().expect("a default").to_string(), ip, "{spec:?}");
        assert_eq!(spec.mac_or_default(), Ok(Some(mac)), "{spec:?}");
    }
}

#[test]
fn hosts_that_are_given_an_ip_have_ethernet_addresses_of_their_own() {
    for (text, mac) in [
        ("memif:/run/a,role=client,ip=10.77.0.3", [2, 0, 10, 77, 0, 3]),
        ("virtio:/run/a,ip=fd00::1:203", [2, 0, 0, 1, 2, 3]),
        ("memif:/run/a,role=client,ip=10.77.0.3,mac=02:00:00:00:00:09", [2, 0, 0, 0, 0, 9]),
    ] {
        assert_eq!(parse(text).mac_or_default(), Ok(Some(mac)), "{text}");
    }
}

#[test]
fn an_interface_keeps_its_addresses_and_must_be_told_its_ip() {
    for text in ["af_packet:eth1", "af_xdp:eth1", "pci:0000:17:00.0"] {
        let spec = parse(text).or_role(Role::Server);
        assert_eq!((spec.role(), spec.mac_or_default(), spec.mtu), (Ok(None), Ok(None), None));
        let error = spec.ip_or_default().expect_err("nobody said");
        let expected =
            format!("{text} has no IP address; add one that the network has for it, as in ip=192.168.7.1");
        assert_eq!(error.to_string(), expected);
    }
    let spec = parse("af_packet:eth1,ip=192.168.7.1,mac=02:00:00:00:00:09");
    let packet =
        |stack_sees| Transport::AfPacket { interface: "eth1".into(), driver: PortDriver::Native, stack_sees };
    assert_eq!(spec.transport, packet(false));
    for (stack, sees) in [("spared", false), ("sees", true)] {
        assert_eq!(parse(&format!("af_packet:eth1,stack={stack}")).transport, packet(sees));
    }
    assert_eq!(spec.ip_or_default().expect("given").to_string(), "192.168.7.1");
    assert_eq!(spec.mac_or_default(), Ok(Some([2, 0, 0, 0, 0, 9])));
}

#[test]
fn only_the_ends_of_a_memif_pair_must_have_the_same_mtu() {
    assert_eq!(parse("memif:/run/a").link_mtu(), Some(4590));
    assert_eq!(parse("fault:loss=1%:memif:/run/a,mtu=1500").link_mtu(), Some(1500));
    assert_eq!(parse("vhost:/run/a,mtu=1500").link_mtu(), None);
    assert_eq!(parse("af_packet:eth1,ip=10.0.0.1,mtu=1500").link_mtu(), None);
}

#[test]
fn a_segment_needs_no_more_than_a_name() {
    let spec = parse("sim:lab");
    assert_eq!(spec.transport, Transport::Sim { segment: "lab".into() });
    assert_eq!((spec.role(), spec.max_frame(), spec.driver), (Ok(None), 4608, None));
    assert_eq!(error("sim:"), "sim: names no segment; give it, as in sim:test");
    assert!(error("sim:a,hugepages=on").starts_with("unknown device key `hugepages`"));
}

#[test]
fn the_driver_may_be_named() {
    let driver = |text: &str| parse(&format!("sim:a,poll={text}")).driver;
    assert_eq!(driver("inline"), Some(Driver::Inline));
    assert_eq!(driver("hybrid"), Some(Driver::Hybrid));
    assert_eq!(driver("thread"), Some(Driver::THREAD));
    assert_eq!(driver("thread@3"), Some(Driver::Thread { cpu: Some(3) }));
    for wrong in ["", "threads", "thread@", "thread@-1", "inline@1"] {
        let text = error(&format!("sim:a,poll={wrong}"));
        assert!(text.ends_with("poll must be inline, hybrid, thread, or thread@ and a processor"), "{text}");
    }
}

#[test]
fn a_pci_address_may_leave_the_domain_out() {
    for text in ["pci:0000:17:00.0,ip=10.0.0.1", "pci:17:00.0,ip=10.0.0.1"] {
        assert_eq!(parse(text).transport, Transport::Pci { address: "0000:17:00.0".into() });
    }
}

#[test]
fn a_role_in_the_string_is_stronger_than_the_programs() {
    assert_eq!(parse("memif:/run/a,role=server").or_role(Role::Client).role(), Ok(Some(Role::Server)));
}

#[test]
fn every_key_is_taken() {
    let spec = parse(
        "memif:/run/a,mtu=1500,vlan=7,mac=02:aB:00:00:00:09,hugepages=off,memory=2048,ip=fd00::1,engines=8,poll=thread@2,role=client,stat=/run/a.stat,latency=32,slow=1ms,host_marks=30us,host_target=20us,costs=/etc/costs,pcap=/tmp/a.pcap",
    );
    let expected = DeviceSpec {
        transport: Transport::Memif {
            path: "/run/a".into(),
            role: Some(Role::Client),
            driver: PortDriver::Native,
        },
        ip: "fd00::1".parse().ok(),
        mac: Some([2, 0xAB, 0, 0, 0, 9]),
        mtu: Some(1500),
        vlan: Some(7),
        hugepages: Hugepages::Off,
        memory_mb: Some(2048),
        engines: 8,
        driver: Some(Driver::Thread { cpu: Some(2) }),
        pcap: Some("/tmp/a.pcap".into()),
        stat: Some(StatAddress::Unix("/run/a.stat".into())),
        latency: Some(LatencyConfig { one_in: 32, slow_ns: 1_000_000 }),
        host_marks_ns: Some(30_000),
        host_target_ns: Some(20_000),
        costs: Some("/etc/costs".into()),
        faults: None,
    };
    assert_eq!(spec, expected);
}

#[test]
fn ipv4_mapped_to_ipv6_is_ipv4() {
    assert_eq!(parse("sim:a,ip=::ffff:10.0.0.9").ip, "10.0.0.9".parse().ok());
}

#[test]
fn every_key_is_in_the_documents() {
    let ports = include_str!("../../../docs/ports.md");
    for key in [parse::MEMIF_KEYS, parse::PACKET_KEYS].iter().flat_map(|keys| keys.names) {
        assert!(ports.contains(&format!("\n| `{key}=` | ")), "docs/ports.md lacks {key}");
    }
}

#[test]
fn faults_wrap_a_device() {
    let spec = parse("fault:loss=1%,seed=7:memif:/run/a,role=client");
    let faults = spec.faults.expect("there are some");
    assert_eq!((faults.loss, faults.seed), (Probability::from_ratio(0.01).expect("a ratio"), 7));
    assert_eq!(spec.role(), Ok(Some(Role::Client)));
    let spec = parse("fault:dup=1%:pci:0000:17:00.0,ip=10.0.0.1");
    assert_eq!(spec.transport, Transport::Pci { address: "0000:17:00.0".into() });
    assert!(spec.faults.is_some());
}

#[test]
fn an_error_names_the_key_and_what_is_allowed() {
    for (text, expected) in [
        ("/run/a", "device `/run/a` has no scheme; give one such as memif:/run/srnic.sock,role=server"),
        (
            "ethernet:a",
            "unknown device scheme `ethernet`; supported: memif, vhost, virtio, af_packet, af_xdp, pci, sim, pool, and \
             fault:..: before each",
        ),
        ("pool:", "pool: names no socket of a `srnic switch --pool SOCKET`"),
        ("pool:/run/p,role=client", "unknown pool key `role`; keys are ip, mac"),
        ("pool:/run/p,driver=dpdk", "unknown pool key `driver`"),
        ("af_packet:eth1,stack=on", "`stack=on`: stack must be spared or sees"),
        ("memif:/a,stack=sees", "unknown device key `stack`"),
        ("af_packet:", "af_packet: names no interface; give it, as in af_packet:eth1,ip=192.168.7.1"),
        ("af_xdp:an interface", "af_xdp:an interface: this cannot be an interface; `ip link` lists those"),
        ("af_packet:sixteen-letters.", "af_packet:sixteen-letters.: this cannot be an interface"),
        ("pci:17", "pci:17: this is no address on the PCI bus; `lspci -D` lists those"),
        ("pci:0000:17:00.0:1", "pci:0000:17:00.0:1: this is no address on the PCI bus"),
        (
            "vhost:/a,role=server",
            "unknown device key `role`; keys are ip, mac, mtu, vlan, engines, poll, stat, latency, slow, host_marks, host_target, costs, pcap, hugepages, memory",
        ),
        ("virtio:/a,hugepages=yes", "`hugepages=yes`: hugepages must be auto, on or off"),
        ("memif:,role=server", "memif: names no socket; give it, as in memif:/run/srnic.sock"),
        ("memif:/a,server", "`server` is not of the form key=value, as in `role=server`"),
        (
            "memif:/a,rolle=server",
            "unknown device key `rolle`; keys are role, driver, ip, mac, mtu, vlan, engines, poll, stat, latency, slow, \
             host_marks, host_target, costs, pcap, hugepages, memory",
        ),
        ("memif:/a,mtu=1500,mtu=1500", "device key `mtu` is given twice"),
        (
            "memif:/a,driver=thread",
            "`driver=thread`: driver must be native or dpdk; poll= says who runs the engine",
        ),
        (
            "memif:/a,poll=dpdk",
            "`poll=dpdk`: poll must be inline, hybrid, thread, or thread@ and a processor",
        ),
        ("sim:a,engines=0", "`engines=0`: engines must be a number from 1 to 8, the same at both ends"),
        ("sim:a,engines=9", "`engines=9`: engines must be a number from 1 to 8, the same at both ends"),
        ("memif:/a,role=master", "`role=master`: role must be server or client"),
        (
            "memif:/a,mtu=347",
            "`mtu=347`: mtu must be a number of bytes from 348 to 9216, the same at both ends",
        ),
        (
            "memif:/a,mtu=65536",
            "`mtu=65536`: mtu must be a number of bytes from 348 to 9216, the same at both ends",
        ),
        ("memif:/a,memory=63", "`memory=63`: memory must be a number of megabytes from 64 to 1048576"),
        ("memif:/a,vlan=4095", "`vlan=4095`: vlan must be a number from 1 to 4094"),
        (
            "memif:/a,ip=224.0.0.1",
            "`ip=224.0.0.1`: ip must be a host's IPv4 or IPv6 address, as in 10.77.0.1",
        ),
        (
            "fault:loss=1%",
            "`fault:` must be followed by its faults, a colon and a device: fault:loss=1%,seed=7:memif:..",
        ),
        ("fault:loss=2:memif:/a", "in `fault:`: `loss=2`: loss must be"),
        ("fault:lost=1%:memif:/a", "in `fault:`: unknown fault key `lost`"),
        ("fault:dup=1%:fault:loss=1%:memif:/a", "`fault:` must be followed by"),
        (
            "fault::memif:/a",
            "`fault::memif:/a` names no faults; give some, as in fault:loss=1%:memif:/a, or leave `fault::` out",
        ),
    ] {
        assert!(error(text).starts_with(expected), "{text}: {}", error(text));
    }
}

#[test]
fn an_ethernet_address_is_six_bytes_of_one_host() {
    assert_eq!(parse_mac("02:00:00:00:00:01"), Some([2, 0, 0, 0, 0, 1]));
    for text in [
        "",
        "02:00:00:00:00",
        "02:00:00:00:00:01:",
        "2:0:0:0:0:1",
        "01:00:5e:00:00:01",
        "00:00:00:00:00:00",
        "02:00:00:00:00:+1",
    ] {
        assert_eq!(parse_mac(text), None, "{text}");
    }
}

#[test]
fn a_device_without_a_role_says_what_to_add() {
    let error = parse("memif:/run/a").role().expect_err("nobody said");
    assert_eq!(
        error.to_string(),
        "memif:/run/a does not say which end it is; add role=server or role=client"
    );
}
