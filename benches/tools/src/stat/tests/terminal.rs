//! A panic in the middle of it.

#[expect(dead_code, reason = "what other tests need of it")]
#[path = "../../../tests/support/pty.rs"]
mod pty;

use crate::stat::live;
use pty::Pty;
use std::path::PathBuf;
use std::process::Command;

/// Where the view below finds the file at whose sight it panics.
const CUE: &str = "SRNIC_TEST_CUE";

/// Run by the test below, in a terminal.
#[test]
#[ignore = "it panics"]
fn a_view_that_panics() {
    let cue = PathBuf::from(std::env::var_os(CUE).expect("the test below says where"));
    let _ = live::run(Vec::new(), || {
        assert!(!cue.exists(), "as a bug would");
        Ok(None)
    });
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was_and_is_told() {
    let cue = std::env::temp_dir().join(format!("srnic-cue-{}", std::process::id()));
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--ignored", "--exact", "--nocapture", "stat::tests::terminal::a_view_that_panics"]);
    command.env("RUST_BACKTRACE", "0").env(CUE, &cue);
    let mut pty = Pty::start(&command);
    pty.wait_until("the alternate screen", vt100::Screen::alternate_screen);
    std::fs::write(&cue, "").expect("a file of ours");
    let code = pty.end();
    std::fs::remove_file(&cue).expect("ours");
    let shown = pty.screen().contents();
    assert_eq!(code, Some(101), "{shown}");
    assert!(pty.is_restored(), "{shown}");
    let [told, behind] = ["as a bug would", "test result: FAILED"].map(|text| shown.find(text));
    assert!(told.is_some() && told < behind, "one behind the other: {shown}");
}
