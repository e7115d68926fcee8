use super::*;

#[test]
fn a_device_has_its_dialect_and_its_speed_behind_it() {
    let config =
        parse("srnic0", "fault:loss=1%,seed=7:sim:here; dialect=plain ; speed=25").expect("as it should be");
    assert_eq!((config.name.as_str(), config.wire_mode, config.speed), ("srnic0", WireMode::Plain, 25));
    assert!(matches!(&config.source, Source::Spec(spec) if spec.faults.is_some()));
    let config = parse("srnic0", "sim:here").expect("as it should be");
    assert_eq!((config.wire_mode, config.speed), (WireMode::Srnic, SPEED_DEFAULT));
    assert!(!config.strict_placement);
    let strict = |text: &str| parse("srnic0", text).expect("as it should be").strict_placement;
    assert!(strict("sim:here; order=strict") && !strict("sim:here; order=free"));
}

#[test]
fn what_makes_no_sense_is_said_with_what_may_be() {
    for (text, said) in [
        ("", "has no scheme"),
        ("sim:here;dialect=latin", "`dialect=latin`: behind the device there may be"),
        ("sim:here;order=any", "`order=any`: behind the device there may be"),
        ("sim:here;speed=fast", "in gigabits a second"),
        ("sim:here;fast", "`fast=`"),
    ] {
        let error = parse("srnic0", text).expect_err(text).to_string();
        assert!(error.starts_with("SRNIC_DEVICE: ") && error.contains(said), "{error}");
    }
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
fn several_devices_have_names_and_lines_of_their_own() {
    let text = "\nmlx=sim:left; speed=25\n  other_1 = fault:loss=1%:pool:/run/pool.sock,stat=/run/1.stat\n";
    let devices = parse_all(text).expect("two devices");
    let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!((names, devices[0].speed), (vec!["mlx", "other_1"], 25));
    assert!(
        matches!(&devices[1].source, Source::Spec(spec) if matches!(spec.transport, Transport::Pool { .. }))
            && devices[1].ip().is_none()
    );
    let devices = parse_all("memif:/tmp/a.sock,role=client").expect("one");
    assert_eq!((devices.len(), devices[0].name.as_str()), (1, "srnic0"));
    for twice in ["a = sim:here\na = sim:there", "sim:here\nsim:there"] {
        let error = parse_all(twice).expect_err(twice).to_string();
        assert!(error.contains("two devices are called"), "{error}");
    }
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
