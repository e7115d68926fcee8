//! `srnic perftest` against itself.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use support::{Place, Running, srnic};

fn start(place: &Place, host: u8, arguments: &[&str]) -> Running {
    let role = if host == 1 { "server" } else { "client" };
    let mut command = srnic("perftest");
    let socket = place.path("memif");
    command.args(["-d", &format!("memif:{},role={role},ip=10.77.0.{host}", socket.display())]);
    command.args(["-p", &place.port.to_string()]).args(arguments);
    if host == 2 {
        command.arg("127.0.0.1");
    }
    Running::start(command)
}

#[test]
fn two_pingpongs_of_ours_end() {
    for service in ["rc", "uc", "ud"] {
        let place = Place::new(&format!("pingpong-{service}"));
        let arguments = ["pingpong", "-c", service, "-n", "100", "-s", "1000"];
        let ends = [1, 2].map(|host| start(&place, host, &arguments));
        for end in ends.map(Running::end) {
            end.assert_success();
            assert_eq!(
                String::from_utf8_lossy(&end.0.stdout),
                "100 messages sent, 100 received\n",
                "{service}"
            );
        }
    }
}

#[test]
fn what_a_service_cannot_do_a_server_refuses_too() {
    let place = Place::new("impossible");
    for (test, service) in [("read-bw", "ud"), ("write-lat", "ud"), ("atomic-bw", "uc")] {
        let reason = format!("{test} is not possible with -c {service}");
        start(&place, 1, &[test, "-c", service]).end().assert_failed(1, &reason);
    }
}
