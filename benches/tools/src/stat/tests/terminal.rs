//! A panic in the middle of it.

#[expect(dead_code, reason = "what other tests need of it")]
#[path = "../../../tests/support/pty.rs"]
mod pty;

use crate::stat::live;
use pty::Pty;
use std::process::Command;

/// Run by the test below, in a terminal.
#[test]
#[ignore = "it panics"]
fn a_view_that_panics() {
    let mut looks = 0;
    let _ = live::run(Vec::new(), || {
        looks += 1;
        assert!(looks < 3, "as a bug would");
        Ok(None)
    });
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was_and_is_told() {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--ignored", "--exact", "--nocapture", "stat::tests::terminal::a_view_that_panics"]);
    command.env("RUST_BACKTRACE", "0");
    let mut pty = Pty::start(&command);
    pty.wait_until("the alternate screen", vt100::Screen::alternate_screen);
    assert_eq!(pty.end(), Some(101));
    assert!(pty.is_restored(), "{}", pty.screen().contents());
    let shown = pty.screen().contents();
    let [told, behind] = ["as a bug would", "test result: FAILED"].map(|text| shown.find(text));
    assert!(told.is_some() && told < behind, "one behind the other: {shown}");
}
