//! A delay at each of six places of a path between two real processes, and which part of an
//! operation's time it moves. `--nocapture` shows the table. In virtual time, to the nanosecond:
//! tests/simnet/tests/latency.rs.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use rustix::process::{Pid, Signal, kill_process};
use srnic_tools::dial::dial;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::{LIMIT, Place, Running, srnic};
use verbs_api::{
    Access, CompletionQueue, Connector, Device, Driver, LatencyConfig, MemoryRegion, Part, Parts, QueuePair,
    RemoteRegion, SendData, SendRequest, WcStatus,
};

/// What is injected: below what an acknowledgement can say of its host.
const DELAY: Duration = Duration::from_millis(1);
/// Operations at each place, of which the median counts.
const TIMES: usize = 11;
const BYTES: usize = 64;

/// Where a delay is injected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Nowhere,
    /// The thread stops between writing the request and handing it over.
    Posting,
    /// The queue pair is not given its turn.
    Scheduler,
    /// Another request fills the window, over a link on which half of the delay is.
    Window,
    Link,
    /// The process of the receiver is stopped.
    Receiver,
    /// The thread does not look at its completions.
    Poller,
}

impl At {
    /// The part that it must move, and by how much.
    const fn moves(self) -> Part {
        match self {
            Self::Posting => Part::Posting,
            Self::Scheduler => Part::Scheduler,
            Self::Window => Part::Window,
            Self::Nowhere | Self::Link => Part::Network,
            Self::Receiver => Part::Peer,
            Self::Poller => Part::Polling,
        }
    }

    const fn is_on_the_link(self) -> bool {
        matches!(self, Self::Window | Self::Link)
    }
}

/// A connection to a process that answers probes.
struct Path {
    device: Device,
    pair: QueuePair,
    cq: CompletionQueue,
    source: MemoryRegion,
    target: RemoteRegion,
    server: Running,
    /// Samples that were taken from the device.
    samples: u64,
    _place: Place,
}

impl Path {
    fn open(at: At) -> Self {
        let place = Place::new(&format!("delays-{at:?}"));
        let socket = place.path("socket").display().to_string();
        let mut command = srnic("hostping");
        command.args(["-d", &format!("memif:{socket},role=server"), "--answer"]).env_remove("SRNIC_LOG");
        let mut server = Running::start(command);
        server.wait_for("answering probes at 10.77.0.1");
        let fault = if at.is_on_the_link() {
            format!("fault:delay={}us,dir=tx:", DELAY.as_micros())
        } else {
            String::new()
        };
        // A thread drives: an engine that its caller drives would stop with it.
        let device = Device::builder()
            .driver(Driver::THREAD)
            .latency(Some(LatencyConfig { one_in: 2, slow_ns: 0 }))
            .open(&format!("{fault}memif:{socket},role=client"))
            .expect("the device");
        device.wait_link(LIMIT).expect("the link");
        let pd = device.alloc_pd();
        let window = if at == At::Window { 1 } else { 64 };
        let prepare = || {
            let cq = device.create_cq(16)?;
            Ok((pd.queue_pair(&cq, &cq).window(window).build()?, cq))
        };
        let server_at: SocketAddr = "10.77.0.1:7175".parse().expect("an address");
        let (pair, cq) = dial(&device, Connector::new(), server_at, LIMIT, prepare).expect("connected");
        let target = RemoteRegion::from_bytes(&pair.private_data()[..RemoteRegion::BYTES]).expect("told");
        let source = pd.register(BYTES, Access::LOCAL_WRITE).expect("memory");
        let mut path = Self { device, pair, cq, source, target, server, samples: 0, _place: place };
        // The first is sampled, and from then on the second of two.
        path.post();
        path.complete(1);
        path.last_sample();
        path
    }

    fn post(&mut self) {
        let data = [self.source.slice(..).expect("all of it")];
        let write = SendRequest::write(SendData::Gather(&data), self.target.at(0)).signaled();
        self.pair.post_send(&write).expect("there is room");
    }

    /// Stops the receiver, and returns once it stands still.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.server.id());
        let is_stopped = || {
            let text = std::fs::read_to_string(&stat).expect("it runs");
            text.rsplit(") ").next().is_some_and(|state| state.starts_with('T'))
        };
        while !is_stopped() {
            std::thread::yield_now();
        }
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.server.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a process"), signal).expect("our child");
    }

    /// Polls until `count` requests have completed.
    fn complete(&mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            let Some(done) = self.cq.poll() else { continue };
            assert_eq!(done.status, WcStatus::Success);
            left -= 1;
        }
    }

    /// Two WRITEs, of which the second is sampled, and where the time of that one went.
    fn sample(&mut self, at: At) -> Parts {
        self.post();
        if at != At::Window {
            self.complete(1);
        }
        match at {
            At::Nowhere | At::Link | At::Window => self.post(),
            At::Posting => {
                let data = [self.source.slice(..).expect("all of it")];
                let write = SendRequest::write(SendData::Gather(&data), self.target.at(0)).signaled();
                let mut batch = self.pair.batch();
                batch.post_send(&write).expect("there is room");
                sleep(DELAY);
            }
            At::Scheduler => {
                self.pair.pause().expect("it is connected");
                self.post();
                sleep(DELAY);
                self.pair.resume().expect("it is connected");
            }
            At::Receiver => {
                self.stop();
                self.post();
                sleep(DELAY);
                self.signal(Signal::CONT);
            }
            At::Poller => {
                self.post();
                sleep(DELAY);
            }
        }
        self.complete(if at == At::Window { 2 } else { 1 });
        self.last_sample()
    }

    /// The engine hears of the poll in its next turn.
    fn last_sample(&mut self) -> Parts {
        let since = Instant::now();
        loop {
            let report = self.device.latency().expect("it samples");
            if let Some(last) = report.slow.iter().last().filter(|_| report.slow.count() > self.samples) {
                self.samples = report.slow.count();
                return last.sample.parts;
            }
            assert!(since.elapsed() < LIMIT, "{report:?}");
            std::thread::yield_now();
        }
    }
}

/// The median of each part, in nanoseconds. Of the place's own part at least one operation must
/// tell the delay: on a busy machine an engine may not run before it is over.
fn medians(at: At) -> Vec<(Part, u64)> {
    let mut path = Path::open(at);
    let mut samples: Vec<Parts> = (0..TIMES).map(|_| path.sample(at)).collect();
    let of = |part: Part| {
        let mut times: Vec<u64> = samples.iter().map(|parts| parts[part]).collect();
        times.sort_unstable();
        (part, times[TIMES / 2])
    };
    let medians = Part::ALL.map(of).to_vec();
    let since = Instant::now();
    while at != At::Nowhere
        && !samples.iter().any(|parts| u128::from(parts[at.moves()]) * 10 >= DELAY.as_nanos() * 9)
    {
        assert!(since.elapsed() < LIMIT, "{at:?} is not seen in {}: {medians:?}", at.moves());
        samples.push(path.sample(at));
    }
    medians
}

/// Its part tells it; how long that and the others are is reported.
#[test]
fn a_delay_of_real_processes_moves_its_part() {
    let calm = medians(At::Nowhere);
    println!("{DELAY:?} at   part        now us  before us   others that moved by a tenth of it, us");
    for at in [At::Posting, At::Scheduler, At::Window, At::Link, At::Receiver, At::Poller] {
        let delayed = medians(at);
        let find = |of: &[(Part, u64)], part: Part| of.iter().find(|one| one.0 == part).expect("all parts").1;
        let (now, before) = (find(&delayed, at.moves()), find(&calm, at.moves()));
        let delay = u64::try_from(DELAY.as_nanos()).expect("short");
        let moved = delayed
            .iter()
            .filter(|(part, ns)| *part != at.moves() && ns.abs_diff(find(&calm, *part)) * 10 > delay);
        let moved: Vec<String> = moved.map(|(part, ns)| format!("{part} {}", ns / 1000)).collect();
        let (place, part) = (format!("{at:?}"), at.moves().to_string());
        println!("{place:<10} {part:<10} {:>7}  {:>9}   {}", now / 1000, before / 1000, moved.join(", "));
    }
}
