use super::*;

#[test]
fn a_device_has_its_dialect_and_its_speed_behind_it() {
    let config =
        parse("srnic0", "fault:loss=1%,seed=7:sim:here; dialect=plain ; speed=25").expect("as it should be");
    assert_eq!((config.name.as_str(), config.wire_mode, config.speed), ("srnic0", WireMode::Plain, 25));
    assert!(config.spec.faults.is_some());
    let config = parse("srnic0", "sim:here").expect("as it should be");
    assert_eq!((config.wire_mode, config.speed), (WireMode::Srnic, SPEED_DEFAULT));
}

#[test]
fn what_makes_no_sense_is_said_with_what_may_be() {
    for (text, said) in [
        ("", "has no scheme"),
        ("sim:here;dialect=latin", "`dialect=latin`: behind the device there may be"),
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
    let spec = with_role("memif:/nonexistent/c.sock".parse().expect("a device"));
    assert_eq!(spec.role().ok().flatten(), Some(Role::Server));
}
