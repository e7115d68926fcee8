//! The sending side.

use super::cli::{Common, SendArgs};
use super::report::{self, Transfer};
use crate::channel::Channel;
use crate::completions::Completions;
use crate::error::{Error, Result};
use crate::link::wait_for_link;
use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, Backing as _, CompletionQueue, Device, Endpoint, FileBacking, MemoryRegion, ProtectionDomain,
    QueuePair, QueuePairBuilder, RemoteRegion, Role, SendData, SendRequest,
};

/// WRITEs under way at most: enough for a full window, whatever their size.
const DEPTH: u64 = 32;
/// A try lasts 4.096 us x 2^18, 1.07 s, and there are eight: a peer whose disk stalls is not given
/// up, one that is gone is, within ten seconds.
const TIMEOUT: u8 = 18;
const RETRY_CNT: u8 = 7;
/// Bytes at the start of a file that are brought into memory at once. Of a file that is longer than
/// the memory the first would be gone again before they are needed.
const POPULATED: usize = 1 << 30;

/// Sends one file.
pub fn run(args: &SendArgs) -> Result<()> {
    // What can go wrong without the peer goes wrong first.
    let file = open(&args.input)?;
    output::check_file(args.common.json.as_deref())?;
    let device = Device::open_spec(&args.common.device.clone().or_role(Role::Client))?;
    let address = SocketAddr::from((args.host, args.common.port));
    let mut channel = Channel::connect(&device, super::VERSION, address)?;
    let result = transfer(args, &device, file, &mut channel);
    if let Err(error) = &result {
        channel.say_failed(error);
    }
    report::sender(&device, result?, args.common.json.as_deref())
}

/// The file's bytes. An empty one has none that could be mapped: found by reading, since files of
/// /proc have no length.
fn open(path: &Path) -> Result<Option<FileBacking>> {
    let mut file = File::open(path).map_err(Error::file("open", path))?;
    let empty = file.read(&mut [0]).map_err(Error::file("read", path))? == 0;
    Ok(if empty { None } else { Some(FileBacking::open(path)?) })
}

/// Brings the file into memory before the first packet: a page that is touched first then costs
/// more than a packet does.
pub fn populate(file: &FileBacking) -> Result<()> {
    Ok(file.populate(..POPULATED.min(file.len()))?)
}

/// A queue pair as both sides need it.
pub fn queue_pair(common: &Common, pd: &ProtectionDomain, cq: &CompletionQueue) -> QueuePairBuilder {
    pd.queue_pair(cq, cq)
        .window(common.window)
        .congestion(common.cc.into())
        .timeout(TIMEOUT)
        .retry_cnt(RETRY_CNT)
}

fn transfer(
    args: &SendArgs,
    device: &Device,
    file: Option<FileBacking>,
    channel: &mut Channel,
) -> Result<Transfer> {
    let (pd, mut cq) = (device.alloc_pd(), device.create_cq(64)?);
    file.as_ref().map_or(Ok(()), populate)?;
    let source = file.map(|file| pd.register_file(file, Access::empty())).transpose()?;
    let prepared = queue_pair(&args.common, &pd, &cq).build()?;
    let bytes = source.as_ref().map_or(0, MemoryRegion::len) as u64;
    channel.say("file", bytes)?;
    channel.say("endpoint", prepared.endpoint())?;
    let Some(source) = source else {
        return end(device, channel, Transfer { bytes, time: Duration::ZERO });
    };
    let target: RemoteRegion = channel.hear(device, "region")?;
    if target.len != bytes {
        let said = format!("region {target}");
        return Err(Error::Unexpected { said, expected: "a region as long as the file" });
    }
    let remote: Endpoint = channel.hear(device, "endpoint")?;
    Channel::check_distinct(device, remote.ip)?;
    let mut queue_pair = prepared.connect(&remote)?;
    wait_for_link(device, &args.common.device, || channel.check())?;

    let start = Instant::now();
    write_all(args, &mut queue_pair, &source, &target, Completions::new(&mut cq, channel))?;
    end(device, channel, Transfer { bytes, time: start.elapsed() })
}

/// The receiver has the file, and is told that nothing more comes.
fn end(device: &Device, channel: &mut Channel, transfer: Transfer) -> Result<Transfer> {
    let received: u64 = channel.hear(device, "received")?;
    if received != transfer.bytes {
        let said = format!("received {received}");
        return Err(Error::Unexpected { said, expected: "the length of the file" });
    }
    channel.say("done", transfer.bytes)?;
    Ok(transfer)
}

/// Writes the whole region in messages, the last with an immediate, and waits for all
/// acknowledgements.
fn write_all(
    args: &SendArgs,
    queue_pair: &mut QueuePair,
    source: &MemoryRegion,
    target: &RemoteRegion,
    mut completions: Completions<'_>,
) -> Result<()> {
    let bytes = source.len();
    let message = args.message as usize;
    let messages = bytes.div_ceil(message) as u64;
    let bar = progress_bar(bytes as u64);
    let (mut posted, mut completed) = (0, 0);
    while completed < messages {
        while posted < messages && posted - completed < DEPTH {
            let start = usize::try_from(posted).unwrap_or(usize::MAX) * message;
            let gather = [source.slice(start..bytes.min(start + message))?];
            let request = SendRequest::write(SendData::Gather(&gather), target.at(start as u64));
            let request = request.id(posted).signaled();
            let last = posted + 1 == messages;
            queue_pair.post_send(&if last { request.with_imm(0) } else { request })?;
            posted += 1;
        }
        completions.next("a WRITE")?;
        completed += 1;
        bar.set_position((completed * u64::from(args.message)).min(bytes as u64));
    }
    bar.finish_and_clear();
    Ok(())
}

/// Hidden where the output is no terminal.
fn progress_bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}
