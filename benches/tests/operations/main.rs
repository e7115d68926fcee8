//! Two processes, every operation, 1 % of the packets lost in both directions, and every byte
//! looked at: over memif and over packet sockets. A short volume here; `a_gibibyte` is the long
//! one.

mod end;
#[path = "../../tools/tests/ports/namespace.rs"]
#[expect(dead_code, reason = "what other tests need of it")]
mod namespace;
mod round;
#[path = "../../tools/tests/support/mod.rs"]
#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use end::Life;
use namespace::Veth;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use support::{Ended, Place, Running};

const MIB: u64 = 1 << 20;
/// Far longer than a gibibyte takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(1800);
const LOSS: &str = "fault:loss=1%,seed=7:";

/// One test at a time: each keeps two cores busy.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays both ends in processes of their own, each of which verifies `volume` bytes. The second
/// end's device loses what it sends and what it receives.
fn exchange(name: &str, devices: [String; 2], volume: u64, command: impl Fn(&str) -> Command) {
    let place = Place::new(&format!("operations-{name}"));
    let program = std::env::current_exe().expect("this program").display().to_string();
    let start = |side: usize| {
        let mut command = command(&program);
        command.args(["--exact", "end", "--ignored", "--nocapture"]);
        let wrapper = ["", LOSS][side];
        let device = format!("{wrapper}{}", devices[side]);
        Life { side, port: place.port, volume, device }.give_to(&mut command);
        Running::start(command)
    };
    let (left, right) = (start(0), start(1));
    let ended = [right.end_within(LIMIT), left.end_within(LIMIT)];
    ended.iter().for_each(Ended::assert_success);
    for end in &ended {
        let said = String::from_utf8_lossy(&end.0.stdout).into_owned();
        let figures = said.lines().find(|line| line.contains("bytes verified")).expect("it says what it did");
        println!("{name}: {figures}");
    }
}

fn over_memif(volume: u64) {
    let place = Place::new("operations-memif-socket");
    let socket = place.path("socket").display().to_string();
    let devices = ["server", "client"].map(|role| format!("memif:{socket},role={role}"));
    exchange("memif", devices, volume, |program| Command::new(program));
}

fn over_packet_sockets(volume: u64) {
    let Some(veth) = Veth::new(4200) else { return };
    let devices = [("left", 1), ("right", 2)].map(|(end, host)| format!("af_packet:{end},ip=10.9.0.{host}"));
    exchange("af_packet", devices, volume, |program| veth.command(program));
}

#[test]
fn every_operation_over_memif_through_loss() {
    let _alone = alone();
    over_memif(48 * MIB);
}

#[test]
fn every_operation_over_packet_sockets_through_loss() {
    let _alone = alone();
    over_packet_sockets(24 * MIB);
}

#[test]
#[ignore = "a minute or more"]
fn a_gibibyte() {
    let _alone = alone();
    over_memif(1024 * MIB);
    over_packet_sockets(1024 * MIB);
}

#[test]
#[ignore = "played by the other tests, in a process of its own"]
fn end() {
    if let Some(life) = Life::given() {
        life.live().unwrap_or_else(|error| panic!("{error}"));
    }
}
