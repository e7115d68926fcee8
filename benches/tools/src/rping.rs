//! `srnic rping`: a ping over a connection by address, as rdma-core's `rping` does it: the client
//! names memory of its own, which the server READs, and then other memory, to which the server
//! WRITEs what it read.

use crate::dial::dial;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::output;
use crate::program;
use crate::pump::{wait_for, wait_until};
use clap::{ArgMatches, Parser};
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, Connector, Device, DeviceSpec, Listener, MemoryRegion, PreparedQueuePair,
    QueuePair, RecvRequest, RemoteAddr, Role, SendData, SendRequest, WcOpcode, WcStatus, WireMode,
};

/// Bytes of a message: address 8, key 4, length 4, each big-endian.
const INFO_LEN: usize = 16;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Plays one end of rdma-core's rping: a client of HOST, or a server for one client without it
#[derive(Parser, Debug)]
#[command(version)]
pub struct Args {
    /// Server to connect to; without it this is the server
    host: Option<IpAddr>,
    /// The device, such as af_packet:eth1,ip=192.168.7.3
    #[arg(short = 'd', long = "ib-dev", value_name = "DEVICE")]
    device: DeviceSpec,
    /// Port of the connection manager's
    #[arg(short, long, default_value_t = 7174)]
    port: u16,
    /// Seconds for which a client waits for a server that is not there yet
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=3600))]
    wait: u64,
    /// Pings of a client
    #[arg(short = 'C', long, default_value_t = 10)]
    count: u32,
    /// Bytes of a ping, as at the peer
    #[arg(short = 'S', long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    size: u32,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    let args: Args = program::args(matches);
    interrupt::tool_main(|| run(&args).and_then(output::line))
}

fn run(args: &Args) -> Result<String> {
    let role = if args.host.is_some() { Role::Client } else { Role::Server };
    let device = Device::builder().open_spec(&args.device.clone().or_role(role))?;
    let size = args.size as usize;
    let (pair, queue) = connect(&device, args)?;
    let dialect = pair.remote().wire_mode;
    let mut end = End { pair, cq: queue.cq, memory: queue.memory, size, received: 0, completed: 0 };
    let pings = if args.host.is_some() { end.lead(args.count) } else { end.follow() };
    // The peer is told of a failure, too; who presses Ctrl-C does not wait for its answer.
    let interrupted = matches!(pings, Err(Error::Interrupted));
    let over = end.pair.disconnect(if interrupted { Duration::ZERO } else { PATIENCE });
    let pings = pings?;
    if !over? {
        return Err(Error::Late("the peer did not take leave", PATIENCE.as_secs()));
    }
    let name = if dialect == WireMode::Plain { "plain RoCEv2" } else { "the SRNIC dialect" };
    Ok(format!("{pings} pings of {size} bytes in {name}; disconnected on both sides"))
}

/// A server's one client, or a client's server.
fn connect(device: &Device, args: &Args) -> Result<(QueuePair, Queue)> {
    let prepare = || prepare(device, args.size as usize);
    if let Some(host) = args.host {
        return dial(
            device,
            Connector::new(),
            (host, args.port).into(),
            Duration::from_secs(args.wait),
            prepare,
        );
    }
    let (prepared, queue) = prepare()?;
    let listener = Listener::bind(device, args.port)?;
    program::say(format_args!("waiting for a client on {}", listener.local_addr()));
    let request = wait_until(device, "no client came", None, || Ok(listener.poll()))?;
    let mut connecting = request.accept(prepared)?;
    let pair = wait_for(device, "the client went away again", || Ok(connecting.poll()?))?;
    Ok((pair, queue))
}

/// What a queue pair works with.
struct Queue {
    cq: CompletionQueue,
    memory: MemoryRegion,
}

/// A queue pair that waits for the first message.
fn prepare(device: &Device, size: usize) -> Result<(PreparedQueuePair, Queue)> {
    let (pd, cq) = (device.alloc_pd(), device.create_cq(64)?);
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
    let memory = pd.register(2 * size + 2 * INFO_LEN, access)?;
    let mut prepared = pd.queue_pair(&cq, &cq).access(access).build()?;
    let place = memory.slice(2 * size..2 * size + INFO_LEN)?;
    prepared.post_recv(&RecvRequest { wr_id: 0, scatter: &[place] })?;
    Ok((prepared, Queue { cq, memory }))
}

/// A ping: letters, and a zero at its end, as the stock server WRITEs back no more than a string.
fn text(number: u32, size: usize) -> Vec<u8> {
    let first = number.to_le_bytes()[0];
    let mut ping: Vec<u8> = (b'A'..=b'z').cycle().skip(usize::from(first)).take(size).collect();
    if let Some(last) = ping.last_mut() {
        *last = 0;
    }
    ping
}

/// What a message says.
struct Told {
    memory: RemoteAddr,
    size: u32,
}

/// A connected end. Its memory: what is sent, what arrives, a message received, a message sent.
struct End {
    pair: QueuePair,
    cq: CompletionQueue,
    memory: MemoryRegion,
    size: usize,
    /// Completions not yet waited for.
    received: u32,
    completed: u32,
}

impl End {
    /// The client's part: names its memory, and finds in the second half what stood in the first.
    fn lead(&mut self, count: u32) -> Result<u32> {
        for number in 0..count {
            let ping = text(number, self.size);
            self.memory.write(0, &ping)?;
            for start in [0, self.size] {
                if !self.say(self.memory.addr() + start as u64)? {
                    return Err(Error::Disconnected);
                }
                self.hear()?.ok_or(Error::Disconnected)?;
            }
            let mut found = vec![0; self.size];
            self.memory.read(self.size, &mut found)?;
            if let Some(offset) = (0..self.size).find(|&at| found[at] != ping[at]) {
                let (found, expected) = (found[offset], ping[offset]);
                return Err(Error::Differs { what: "ping", offset, found, expected });
            }
        }
        Ok(count)
    }

    /// The server's part, until the client leaves, which may be before it acknowledges our last
    /// message. Returns how many pings it served.
    fn follow(&mut self) -> Result<u32> {
        let mut pings = 0;
        while let Some(source) = self.named()? {
            let here = [self.memory.slice(..self.size)?];
            if !self.run(&SendRequest::read(&here, source))? || !self.say(0)? {
                break;
            }
            let Some(sink) = self.named()? else { break };
            if !self.run(&SendRequest::write(SendData::Gather(&here), sink))? {
                break;
            }
            pings += 1;
            if !self.say(0)? {
                break;
            }
        }
        Ok(pings)
    }

    /// The memory that the client names; `None` if it has left.
    fn named(&mut self) -> Result<Option<RemoteAddr>> {
        let Some(Told { memory, size }) = self.hear()? else { return Ok(None) };
        if size as usize == self.size {
            return Ok(Some(memory));
        }
        let (option, ours, theirs) = ("-S".to_owned(), self.size.to_string(), size.to_string());
        Err(Error::Mismatch { option, ours, theirs })
    }

    /// Names memory of ours from `addr` on; a server says no more than that it is done. False if
    /// the peer has left.
    fn say(&mut self, addr: u64) -> Result<bool> {
        let mut info = [0; INFO_LEN];
        info[..8].copy_from_slice(&addr.to_be_bytes());
        info[8..12].copy_from_slice(&self.memory.rkey().to_be_bytes());
        info[12..].copy_from_slice(&u32::try_from(self.size).unwrap_or(0).to_be_bytes());
        let start = 2 * self.size + INFO_LEN;
        self.memory.write(start, &info)?;
        let gather = [self.memory.slice(start..)?];
        self.run(&SendRequest::send(SendData::Gather(&gather)))
    }

    /// What the peer says next; `None` if it has left.
    fn hear(&mut self) -> Result<Option<Told>> {
        while self.received == 0 {
            if !self.poll()? {
                return Ok(None);
            }
        }
        self.received -= 1;
        let start = 2 * self.size;
        let mut info = [0; INFO_LEN];
        self.memory.read(start, &mut info)?;
        let place = self.memory.slice(start..start + INFO_LEN)?;
        self.pair.post_recv(&RecvRequest { wr_id: 0, scatter: &[place] })?;
        let addr = u64::from_be_bytes(std::array::from_fn(|at| info[at]));
        let rkey = u32::from_be_bytes(std::array::from_fn(|at| info[8 + at]));
        let size = u32::from_be_bytes(std::array::from_fn(|at| info[12 + at]));
        Ok(Some(Told { memory: RemoteAddr { addr, rkey }, size }))
    }

    /// A request from its start to its completion. False if the peer has left.
    fn run(&mut self, request: &SendRequest<'_>) -> Result<bool> {
        self.pair.post_send(&request.signaled())?;
        while self.completed == 0 {
            if !self.poll()? {
                return Ok(false);
            }
        }
        self.completed -= 1;
        Ok(true)
    }

    /// Waits for one completion, and counts it. False if the peer has left.
    fn poll(&mut self) -> Result<bool> {
        let since = Instant::now();
        loop {
            match self.cq.poll() {
                Some(done) if done.status != WcStatus::Success => {
                    let error = Error::Completion { what: "a work request", status: done.status };
                    return if self.pair.is_disconnected() { Ok(false) } else { Err(error) };
                }
                Some(done) if done.opcode == WcOpcode::Recv => self.received += 1,
                Some(_) => self.completed += 1,
                None if self.pair.is_disconnected() => return Ok(false),
                None if since.elapsed() > PATIENCE => {
                    return Err(Error::Late("nothing completed any more", PATIENCE.as_secs()));
                }
                None => {
                    interrupt::check()?;
                    std::thread::yield_now();
                    continue;
                }
            }
            return Ok(true);
        }
    }
}
