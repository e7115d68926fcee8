//! How long a program that blocks on a completion channel sleeps on after a message has come,
//! beside one that polls; and what two devices cost that do nothing.
//!
//! Two devices of this process, `thread` or `hybrid`; the time is from the post to the receiver
//! being awake. `wake_up memif:/tmp/wake-up.sock hybrid` has them on the two ends of a memif.
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use verbs_api::{
    CompletionChannel, CompletionQueue, CongestionAlgorithm, Device, RecvRequest, SendData, SendRequest,
};

/// Microseconds of quiet before each message: engines spin for 50 us, yield until 200 us, and then
/// sleep.
const GAPS_US: [u64; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // As text it says what to do.
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

type Devices = [Device; 2];

fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let text = arguments.next().unwrap_or_else(|| "sim:wake-up".to_owned());
    let poll = arguments.next().unwrap_or_else(|| "thread".to_owned());
    let open = || open(&text, &poll);
    println!("two idle devices: {:.2} % of a processor", idle_share(&open()?) * 100.0);
    println!("{:>12} {:>22} {:>22}", "quiet [us]", "blocked p50, p99 [us]", "polled p50, p99 [us]");
    for gap in GAPS_US {
        let count = (2_000_000 / (gap + 1_000)).clamp(15, 1_000);
        let [blocked, polled] = [true, false].map(|blocks| measure(&open()?, blocks, gap, count));
        let ([a, b], [c, d]) = (blocked?, polled?);
        println!("{gap:>12} {a:>11.1} {b:>10.1} {c:>11.1} {d:>10.1}");
    }
    Ok(())
}

/// Both ends, with a link.
fn open(text: &str, poll: &str) -> Result<Devices, verbs_api::Error> {
    let role = |role| if text.starts_with("memif:") { format!(",role={role}") } else { String::new() };
    let open = |end| Device::open(&format!("{text},poll={poll}{}", role(end)));
    let devices = [open("server")?, open("client")?];
    devices.iter().try_for_each(|device| device.wait_link(Duration::from_secs(10)))?;
    Ok(devices)
}

/// Processor time of this process for each second in which nothing happens.
fn idle_share(_devices: &Devices) -> f64 {
    let spent = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    };
    thread::sleep(Duration::from_millis(500));
    let (before, start) = (spent(), Instant::now());
    thread::sleep(Duration::from_secs(2));
    (spent() - before).as_secs_f64() / start.elapsed().as_secs_f64()
}

/// Median and 99th percentile, in microseconds.
fn measure(
    [here, there]: &Devices,
    blocks: bool,
    gap_us: u64,
    count: u64,
) -> Result<[f64; 2], Box<dyn Error + Send + Sync>> {
    let (pd, mut cq) = (here.alloc_pd(), here.create_cq(64)?);
    let (its_pd, channel) = (there.alloc_pd(), there.create_channel()?);
    let mut its_cq = there.create_cq_on(&channel, 64)?;
    let build = pd.queue_pair(&cq, &cq).congestion(CongestionAlgorithm::Fixed).build()?;
    let its_build = its_pd.queue_pair(&its_cq, &its_cq).congestion(CongestionAlgorithm::Fixed).build()?;
    let (one, two) = (build.endpoint(), its_build.endpoint());
    let (mut pair, mut its_pair) = (build.connect(&two)?, its_build.connect(&one)?);

    let (awake, wakings) = mpsc::channel();
    let waiter = thread::spawn(move || -> Result<(), verbs_api::Error> {
        for wr_id in 0..count {
            its_pair.post_recv(&RecvRequest { wr_id, scatter: &[] })?;
            receive(blocks, &channel, &mut its_cq)?;
            if awake.send(Instant::now()).is_err() {
                break;
            }
        }
        Ok(())
    });
    let mut times = Vec::new();
    for _ in 0..count {
        thread::sleep(Duration::from_micros(gap_us));
        let posted = Instant::now();
        pair.post_send(&SendRequest::send(SendData::Inline(&[])).signaled())?;
        times.push(wakings.recv()?.duration_since(posted).as_secs_f64() * 1e6);
        while cq.poll().is_none() {}
    }
    waiter.join().map_err(|_| "the waiter panicked")??;
    times.sort_by(f64::total_cmp);
    Ok([times[times.len() / 2], times[times.len() * 99 / 100]])
}

/// One completion.
fn receive(
    blocks: bool,
    channel: &CompletionChannel,
    cq: &mut CompletionQueue,
) -> Result<(), verbs_api::Error> {
    while cq.poll().is_none() {
        if !blocks {
            continue;
        }
        cq.arm(false)?;
        if cq.poll().is_some() {
            break;
        }
        channel.wait(Duration::from_secs(10))?;
    }
    Ok(())
}
