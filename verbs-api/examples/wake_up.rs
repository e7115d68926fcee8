//! How long a program that blocks on a completion channel sleeps on after a message has come,
//! beside one that polls.
//!
//! Two devices of this process, each with an engine's thread; the time is from the post to the
//! receiver being awake.
use std::error::Error;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use verbs_api::{
    CompletionChannel, CompletionQueue, CongestionAlgorithm, Device, Driver, RecvRequest, SendData,
    SendRequest,
};

/// Microseconds of quiet before each message: engines spin for 50 us, yield until 200 us, and then
/// sleep.
const GAPS_US: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];

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

fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
    let segment = std::env::args().nth(1).unwrap_or_else(|| "sim:wake-up".to_owned());
    println!("{:>12} {:>22} {:>22}", "quiet [us]", "blocked p50, p99 [us]", "polled p50, p99 [us]");
    for gap in GAPS_US {
        let count = (2_000_000 / (gap + 1_000)).clamp(20, 1_000);
        let [blocked, polled] = [true, false].map(|blocks| measure(&segment, blocks, gap, count));
        let ([a, b], [c, d]) = (blocked?, polled?);
        println!("{gap:>12} {a:>11.1} {b:>10.1} {c:>11.1} {d:>10.1}");
    }
    Ok(())
}

/// Median and 99th percentile, in microseconds.
fn measure(
    segment: &str,
    blocks: bool,
    gap_us: u64,
    count: u64,
) -> Result<[f64; 2], Box<dyn Error + Send + Sync>> {
    let open = || Device::builder().driver(Driver::THREAD).open(segment);
    let (here, there) = (open()?, open()?);
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
