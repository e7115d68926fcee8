//! ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong: one message there, one back, each after
//! the other's.

use super::cli::Args;
use super::link::{Half, Link};
use super::messages::Keys;
use super::side::Side;
use crate::error::{Error, Result};
use verbs_api::{Device, SendData, WcOpcode};

/// Bytes of a message about an end.
const KEYS_LEN: usize = 52;
/// What the client says once it is connected.
const DONE: &[u8; 5] = b"done\0";
/// What fills its messages.
const FILL: u8 = 0x7b;
/// With `-c`, a client's messages have a zero at the start of each page, and a server's check looks
/// for it.
const PAGE: usize = 4096;
/// Receives ahead: its default.
const RECEIVES: u32 = 500;

/// The whole run.
pub fn run(device: &Device, side: &mut Side, args: &Args) -> Result<String> {
    let mut link = connect(device, side, args)?;
    let mut message = vec![FILL; link.size()];
    message.iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
    link.memory.write(0, &message)?;
    let counts = play(&mut link, args, side.is_client())?;
    check(&link)?;
    // The peer may still wait for an acknowledgement. A stock one closed the connection long ago;
    // one of ours waits for us.
    side.part(device)?;
    Ok(format!("{} messages sent, {} received", counts[0], counts[1]))
}

fn connect(device: &Device, side: &mut Side, args: &Args) -> Result<Link> {
    let half = Half::new(device, args)?;
    let ours = half.keys(device).to_pingpong();
    let mut theirs = vec![0; KEYS_LEN];
    if side.is_client() {
        side.say(&ours)?;
    }
    side.hear(device, &mut theirs)?;
    let keys = Keys::from_pingpong(&theirs).ok_or_else(|| Error::Unexpected {
        said: theirs.escape_ascii().to_string(),
        expected: "the 52 bytes of a pingpong",
    })?;
    let link = half.connect(device, args, &keys, RECEIVES)?;
    if side.is_client() {
        side.say(DONE)?;
    } else {
        side.say(&ours)?;
        side.hear(device, &mut [0; DONE.len()])?;
    }
    Ok(link)
}

/// Sends and receives as many messages as both ends were told. Returns how many.
fn play(link: &mut Link, args: &Args, is_client: bool) -> Result<[u32; 2]> {
    let (mut posted, mut sent, mut received) = (0, 0, 0);
    while sent < args.iters || received < args.iters {
        // A message goes once the one before is sent and answered; the client begins.
        let answered = received + u32::from(is_client);
        if posted < args.iters && posted == sent && posted < answered {
            let source = [link.source()?];
            link.pair.send(SendData::Gather(&source))?;
            posted += 1;
        }
        match link.poll()? {
            Some(done) if done.opcode == WcOpcode::Recv => {
                received += 1;
                link.post_receive()?;
            }
            Some(_) => sent += 1,
            None => {}
        }
    }
    Ok([sent, received])
}

/// What came is what the peer sends.
fn check(link: &Link) -> Result<()> {
    let mut found = vec![0; link.size()];
    link.memory.read(link.target_at(), &mut found)?;
    let wrong =
        (0..found.len()).find(|&at| found[at] != FILL && !(at.is_multiple_of(PAGE) && found[at] == 0));
    match wrong {
        Some(offset) => {
            Err(Error::Differs { what: "message received", offset, found: found[offset], expected: FILL })
        }
        None => Ok(()),
    }
}
