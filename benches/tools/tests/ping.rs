//! `srnic ping` and `srnic devinfo` as processes.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use std::process::Output;
use support::srnic;

fn run(program: &str, arguments: &[&str]) -> (Output, String) {
    let output = srnic(program).args(arguments).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn a_device_that_pings_itself_is_answered() {
    let arguments = ["-d", "sim:itself,ip=10.77.0.9", "10.77.0.9", "-c", "3", "-i", "0.001", "-s", "100"];
    let (output, text) = run("ping", &arguments);
    assert!(output.status.success(), "{output:?}");
    assert!(text.starts_with("PING 10.77.0.9 from 10.77.0.9: 100 bytes\n"), "{text}");
    for number in 0..3 {
        assert!(text.contains(&format!("\nfrom 10.77.0.9: number {number}, ")), "{text}");
    }
    assert!(text.contains("\n3 datagrams sent, 3 answered, 0.0% lost\nrtt min/avg/max/mdev = "), "{text}");
}

#[test]
fn pings_without_an_interval_are_answered() {
    let arguments = ["-d", "sim:flood,ip=10.77.0.9", "10.77.0.9", "-c", "1000", "-i", "0", "-q"];
    let (output, text) = run("ping", &arguments);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("\n1000 datagrams sent, 1000 answered, 0.0% lost\n"), "{text}");
}

#[test]
fn a_time_that_is_none_is_refused() {
    for option in ["--interval=-1", "--timeout=nan"] {
        // One ping would be sent, and the next never.
        let arguments = ["-d", "sim:never,ip=10.77.0.9", "10.77.0.10", "-c", "2", option];
        let (output, _) = run("ping", &arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("a number of seconds, 0 or more"), "{option}: {error}");
    }
}

#[test]
fn what_cannot_be_tried_is_an_error_and_says_why() {
    let (output, _) = run("ping", &["-d", "sim:long", "10.77.0.1", "-s", "100000", "-c", "1"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(error.starts_with("srnic ping: "), "{error}");
}

#[test]
fn a_device_says_what_it_is() {
    let (output, text) = run("devinfo", &["-d", "sim:info,ip=10.77.3.4,mac=02:00:00:aa:bb:cc"]);
    assert!(output.status.success(), "{output:?}");
    for line in [
        "max_qp:                 1024",
        "state:",
        "PORT_ACTIVE",
        "::ffff:10.77.3.4",
        "0xffff",
        "0000:00ff:feaa:bbcc",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let (output, _) = run("devinfo", &["-d", "sim:"]);
    assert!(!output.status.success());
}
