//! perftest 4.5 (which calls itself 6.06): what its two ends tell each other before and after the
//! traffic.

use super::cli::{Args, Test};
use super::link::{Half, Link};
use super::messages::Keys;
use super::side::Side;
use super::traffic;
use crate::error::{Error, Result};
use crate::pump::wait_until;
use verbs_api::Device;

/// A version, in 16 bytes.
const VERSION: &[u8; 16] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
/// Bytes of the buffer that is cycled through and of a cache line, each as a 32-bit number.
const SIZES: [u32; 2] = [4096, 64];
/// What both ends say last.
const DONE: &[u8; 5] = b"done\0";
/// Numbers of a bandwidth report, 8 bytes each.
const REPORT: usize = 5;
/// Receives ahead: its default.
const RECEIVES: u32 = 512;

/// The whole run.
pub fn run(device: &Device, side: &mut Side, args: &Args) -> Result<String> {
    let (mut link, ours) = connect(device, side, args)?;
    if !side.is_client() {
        let summary = traffic::follow(&mut link, args, side)?;
        answer_to_the_end(device, side)?;
        return Ok(summary);
    }
    let summary = traffic::lead(&mut link, args)?;
    match say_the_end(device, side, &ours, args.test) {
        // Some servers do not wait for it.
        Ok(()) | Err(Error::PeerLeft) => Ok(summary),
        Err(error) => Err(error),
    }
}

/// Versions, sizes, path MTU, the ends; and the ends again and again, as barriers.
fn connect(device: &Device, side: &mut Side, args: &Args) -> Result<(Link, Vec<u8>)> {
    side.exchange(device, VERSION)?;
    for size in SIZES {
        side.exchange(device, &size.to_be_bytes())?;
    }
    let mtu = side.exchange(device, &[b'0' + args.mtu.code(), 0])?;
    if mtu[0] != b'0' + args.mtu.code() {
        return Err(Error::Mismatch {
            option: "the code of the path MTU".to_owned(),
            ours: args.mtu.code().to_string(),
            theirs: mtu.escape_ascii().to_string(),
        });
    }
    let half = Half::new(device, args)?;
    let ours = half.keys(device).to_perftest();
    let theirs = side.exchange(device, &ours)?;
    let keys = Keys::from_perftest(&theirs).ok_or_else(|| Error::Unexpected {
        said: theirs.escape_ascii().to_string(),
        expected: "the 108 bytes of perftest",
    })?;
    let receives = match args.test {
        Test::SendBw | Test::SendLat => RECEIVES,
        _ => 0,
    };
    let link = half.connect(device, args, &keys, receives)?;
    for _ in 0..barriers(args.test) {
        side.exchange(device, &ours)?;
    }
    Ok((link, ours))
}

/// Returns `true` if the server only serves, and gets a report at the end.
const fn is_one_sided(test: Test) -> bool {
    matches!(test, Test::WriteBw | Test::ReadBw | Test::AtomicBw)
}

/// How often the ends are said again before the traffic.
const fn barriers(test: Test) -> usize {
    if is_one_sided(test) { 2 } else { 3 }
}

/// What a client says when the traffic is over: a barrier, after one-sided traffic its report and
/// another, and that it is done.
fn say_the_end(device: &Device, side: &mut Side, ours: &[u8], test: Test) -> Result<()> {
    side.exchange(device, ours)?;
    if is_one_sided(test) {
        for _ in 0..REPORT {
            side.exchange(device, &[0; 8])?;
        }
        side.exchange(device, ours)?;
    }
    side.exchange(device, DONE).map(drop)
}

/// Until the client leaves, it hears what it says: each of its barriers and reports wants one of
/// the same length.
fn answer_to_the_end(device: &Device, side: &mut Side) -> Result<()> {
    wait_until(device, "the client did not leave", None, || {
        let said = side.poll()?;
        let left = said.as_ref().is_some_and(Vec::is_empty);
        if let Some(said) = said.filter(|said| !said.is_empty()) {
            // It may have left without waiting for the last one.
            let _ = side.say(&said);
        }
        Ok(left.then_some(()))
    })
}
