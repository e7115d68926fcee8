use super::*;
use crate::spec::Transport;

fn parse(text: &str) -> NamedDevice {
    NamedDevice::parse("srnic0", text).expect("as it should be")
}

#[test]
fn a_device_has_its_dialect_and_its_speed_behind_it() {
    let device = parse("fault:loss=1%,seed=7:sim:here; dialect=plain ; speed=25");
    assert_eq!((device.name.as_str(), device.wire_mode, device.speed), ("srnic0", WireMode::Plain, 25));
    assert!(device.spec.faults.is_some());
    let device = parse("sim:here");
    assert_eq!((device.wire_mode, device.speed), (WireMode::Srnic, SPEED_DEFAULT));
    assert!(!device.strict_placement);
    assert!(parse("sim:here; order=strict").strict_placement);
    assert!(!parse("sim:here; order=free").strict_placement);
}

#[test]
fn what_makes_no_sense_is_said_with_what_may_be() {
    for (text, said) in [
        ("", "has no scheme"),
        ("sim:here;dialect=latin", "`dialect=latin`: behind the device there may be"),
        ("sim:here;order=any", "`order=any`: behind the device there may be"),
        ("sim:here;speed=fast", "in gigabits a second"),
        ("sim:here;fast", "`fast=`"),
        ("sim:here;order=strict;order=free", "`order=` is said twice"),
    ] {
        let error = NamedDevice::parse("srnic0", text).expect_err(text).to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn several_devices_have_names_and_lines_of_their_own() {
    let text = "\nmlx=sim:left; speed=25\n  other_1 = fault:loss=1%:pool:/run/pool.sock,stat=/run/1.stat\n";
    let devices = NamedDevice::parse_all(text).expect("two devices");
    let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!((names, devices[0].speed), (vec!["mlx", "other_1"], 25));
    assert!(matches!(devices[1].spec.transport, Transport::Pool { .. }));
    let devices = NamedDevice::parse_all("memif:/tmp/a.sock,role=client").expect("one");
    assert_eq!((devices.len(), devices[0].name.as_str()), (1, "srnic0"));
    for twice in ["a = sim:here\na = sim:there", "sim:here\nsim:there"] {
        let error = NamedDevice::parse_all(twice).expect_err(twice).to_string();
        assert!(error.contains("two devices are called"), "{error}");
    }
}
