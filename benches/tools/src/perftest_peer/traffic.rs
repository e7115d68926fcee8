//! What each end does between the barriers, and what can be checked of it.

use super::cli::{Args, Test};
use super::link::{CYCLE, Link};
use super::side::Side;
use crate::error::{Error, Result};
use verbs_api::{SendData, SendRequest, WcOpcode};

/// What a client adds with each atomic, as perftest does.
const ADD: u64 = 1;

/// The client's part.
pub fn lead(link: &mut Link, args: &Args) -> Result<String> {
    match args.test {
        Test::SendLat | Test::WriteLat => take_turns(link, args, true),
        Test::ReadLat | Test::AtomicLat => keep_busy(link, args, 1),
        _ => keep_busy(link, args, args.tx_depth),
    }
}

/// The server's part, if it has one.
pub fn follow(link: &mut Link, args: &Args, side: &mut Side) -> Result<String> {
    match args.test {
        Test::SendLat | Test::WriteLat => take_turns(link, args, false),
        Test::SendBw => receive_all(link, args),
        _ => {
            // The client's requests need no more than the engine; when it is done, it says so.
            let said = loop {
                if let Some(said) = side.poll()? {
                    break said;
                }
                link.serve()?;
            };
            side.say(&said)?;
            served(link, args)
        }
    }
}

/// So many requests, as many as `depth` at a time.
fn keep_busy(link: &mut Link, args: &Args, depth: u32) -> Result<String> {
    let (source, target) = ([link.source()?], [link.target()?]);
    let remote = link.remote;
    let (mut posted, mut done) = (0, 0);
    let mut found = None;
    while done < args.iters {
        while posted < args.iters && posted - done < depth {
            let request = match args.test {
                Test::SendBw => None,
                Test::WriteBw => Some(SendRequest::write(SendData::Gather(&source), remote)),
                Test::ReadBw | Test::ReadLat => Some(SendRequest::read(&target, remote)),
                _ => Some(SendRequest::fetch_and_add(target[0], remote, ADD)),
            };
            match request {
                Some(request) => link.pair.post(&request.signaled())?,
                None => link.pair.send(SendData::Gather(&source))?,
            }
            posted += 1;
        }
        while link.poll()?.is_some() {
            done += 1;
            if depth == 1 && args.test == Test::AtomicLat {
                found = Some(check_sum(link, found)?);
            }
        }
    }
    Ok(format!("{done} requests of {} bytes completed", link.size()))
}

/// Each atomic finds what the one before left.
fn check_sum(link: &Link, before: Option<u64>) -> Result<u64> {
    let mut word = [0; 8];
    link.memory.read(link.target_at(), &mut word)?;
    let found = u64::from_ne_bytes(word);
    match before {
        Some(before) if found != before.wrapping_add(ADD) => {
            Err(Error::Atomics { what: "the results", found, executed: before.wrapping_add(ADD) })
        }
        _ => Ok(found),
    }
}

/// A server of `ib_send_bw` takes them all.
fn receive_all(link: &mut Link, args: &Args) -> Result<String> {
    let mut received = 0;
    while received < args.iters {
        if let Some(done) = link.poll()?
            && done.opcode == WcOpcode::Recv
        {
            expect_length(link, done.byte_len)?;
            received += 1;
            link.post_receive()?;
        }
    }
    Ok(format!("{received} messages of {} bytes received", link.size()))
}

fn expect_length(link: &Link, found: u32) -> Result<()> {
    if found as usize == link.received_len() {
        return Ok(());
    }
    let (option, ours, theirs) =
        ("the size of a message".to_owned(), link.received_len().to_string(), found.to_string());
    Err(Error::Mismatch { option, ours, theirs })
}

/// What a passive server can say of its client's work: the sum of atomics, each of which adds 1.
fn served(link: &Link, args: &Args) -> Result<String> {
    if !matches!(args.test, Test::AtomicBw | Test::AtomicLat) {
        return Ok("the client is done".to_owned());
    }
    let mut words = [0; CYCLE];
    link.memory.read(link.target_at(), &mut words)?;
    let (words, _) = words.as_chunks();
    let (found, executed) = (words.iter().map(|word| u64::from_ne_bytes(*word)).sum(), u64::from(args.iters));
    if found == executed {
        return Ok(format!("{found} atomics executed, each once"));
    }
    Err(Error::Atomics { what: "the words", found, executed })
}

/// A message there and a message back, so many times. Of WRITEs the last byte tells: it counts up.
fn take_turns(link: &mut Link, args: &Args, is_client: bool) -> Result<String> {
    let source = [link.source()?];
    // perftest's server begins with a WRITE, its client with a SEND.
    let begins = is_client == (args.test == Test::SendLat);
    let (mut posted, mut sent, mut received) = (0, 0, 0);
    while sent < args.iters || received < args.iters {
        if posted < args.iters && posted < received + u32::from(begins) && posted - sent < args.tx_depth {
            posted += 1;
            if args.test == Test::SendLat {
                link.pair.send(SendData::Gather(&source))?;
            } else {
                link.memory.write(link.size() - 1, &posted.to_le_bytes()[..1])?;
                let request = SendRequest::write(SendData::Gather(&source), link.remote);
                link.pair.post(&request.signaled())?;
            }
        }
        match link.poll()? {
            Some(done) if done.opcode == WcOpcode::Recv => {
                expect_length(link, done.byte_len)?;
                received += 1;
                link.post_receive()?;
            }
            Some(_) => sent += 1,
            None if args.test == Test::WriteLat && received < args.iters => {
                let mut last = [0];
                link.memory.read(link.target_at() + link.size() - 1, &mut last)?;
                received += u32::from(last[0] == (received + 1).to_le_bytes()[0]);
            }
            None => {}
        }
    }
    Ok(format!("{sent} messages sent, {received} received"))
}
