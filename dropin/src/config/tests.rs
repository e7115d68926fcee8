use super::*;

#[test]
fn what_is_behind_a_device_is_known_of_it() {
    let text = "fault:loss=1%,seed=7:sim:here; dialect=plain; order=strict; speed=25";
    let config = parse("srnic0", text).expect("as it should be");
    assert_eq!((config.name.as_str(), config.wire_mode, config.speed), ("srnic0", WireMode::Plain, 25));
    assert!(config.strict_placement);
    assert!(matches!(&config.source, Source::Spec(spec) if spec.faults.is_some()));
}

#[test]
fn what_makes_no_sense_is_said_with_the_variable() {
    let error = parse_all("sim:here;order=any").expect_err("no order").to_string();
    assert!(error.starts_with("SRNIC_DEVICE: `order=any`: behind the device there may be"), "{error}");
}

#[test]
fn who_comes_first_is_the_server() {
    let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                   ffff8880: 00000002 00000000 00010000 0005 01 12345 /run/a.sock\n\
                   ffff8881: 00000003 00000000 00000000 0005 03 12346 /run/b.sock\n";
    assert!(listens(sockets, "/run/a.sock"));
    // Connected, and no longer waited for; and nobody's.
    assert!(!listens(sockets, "/run/b.sock") && !listens(sockets, "/run/c.sock"));
    let source = port("memif:/nonexistent/c.sock".parse().expect("a device"));
    let Source::EitherEnd(spec) = source else { panic!("{source:?}") };
    assert_eq!(spec.role().ok().flatten(), Some(Role::Server));
    assert_eq!(late_end(&spec), None, "nobody came before it");
}

#[test]
fn a_process_of_a_job_puts_its_number_into_its_devices() {
    let text = "memif:/tmp/{rank}.sock,ip=10.77.0.{rank}";
    assert_eq!(with_rank(text, Some("3")).expect("a number"), "memif:/tmp/3.sock,ip=10.77.0.3");
    assert_eq!(with_rank("sim:here", None).expect("none is wanted"), "sim:here");
    let error = with_rank(text, None).expect_err("no number").to_string();
    assert!(error.contains("OMPI_COMM_WORLD_RANK"), "{error}");
}

#[test]
fn devices_of_a_pool_are_told_apart_by_their_process() {
    let config = parse("srnic0", "pool:/run/pool.sock").expect("as it should be");
    let pid = u64::from(std::process::id());
    assert_eq!(config.guid() & 0xFF_FFFF, pid & 0xFF_FFFF);
    assert_eq!(config.ip(), None);
    let asked = parse("srnic0", "pool:/run/pool.sock,ip=10.77.0.9").expect("as it should be");
    assert_eq!(asked.ip().map(|ip| ip.to_string()).as_deref(), Some("10.77.0.9"));
}

#[test]
fn each_device_of_a_process_has_a_number_of_its_own() {
    let text = "a = pool:/run/pool.sock\nb = pool:/run/pool.sock\nc = memif:/run/c.sock,role=server\n\
                d = memif:/run/d.sock,role=server";
    let guids: std::collections::BTreeSet<_> =
        parse_all(text).expect("four devices").iter().map(DeviceConfig::guid).collect();
    assert_eq!(guids.len(), 4);
}
