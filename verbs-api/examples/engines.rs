//! Two processes with two engines each: every engine here is connected with every one there.
//!
//! Each engine has a thread, and whatever it makes belongs to it. It connects with the peer's
//! engine of the same number by address; over that they tell each other where a second queue pair
//! is, which is for their neighbor.
//!
//! Start it with `cargo run -p verbs-api --example engines -- server /tmp/engines.sock`, and then
//! with `client`.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, Connector, Device, Endpoint, Listener, MemoryRegion, QueuePair, RecvRequest,
    SendData, SendRequest,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a message.
const LEN: usize = 64;

fn main() -> ExitCode {
    match meet() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // As text it says what to do.
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn meet() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, role, socket] = &args[..] else { return Err("usage: engines server|client SOCKET".into()) };
    let engines = Device::open_engines(&format!("memif:{socket},role={role},engines=2"))?;
    let ((to_first, first), (to_second, second)) = (channel(), channel());
    let ways = [(to_second, first), (to_first, second)];
    thread::scope(|scope| {
        let threads: Vec<_> = engines
            .iter()
            .zip(ways)
            .map(|(device, (to_neighbor, from_neighbor))| {
                scope.spawn(move || run(device, role, &to_neighbor, &from_neighbor))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "an engine's thread died")?)
    })
}

/// What one engine does.
fn run(
    device: &Device,
    role: &str,
    to_neighbor: &Sender<Endpoint>,
    from_neighbor: &Receiver<Endpoint>,
) -> Result<()> {
    let us = device.engine().index();
    let (pd, mut cq) = (device.alloc_pd(), device.create_cq(16)?);
    let memory = pd.register(4 * LEN, Access::LOCAL_WRITE)?;
    let (mut straight, mut across) = (pd.queue_pair(&cq, &cq).build()?, pd.queue_pair(&cq, &cq).build()?);
    for wr_id in 0..2 {
        straight.post_recv(&RecvRequest { wr_id, scatter: &[place(&memory, wr_id)?] })?;
    }
    across.post_recv(&RecvRequest { wr_id: 2, scatter: &[place(&memory, 2)?] })?;
    device.wait_link(LIMIT)?;

    let ours = across.endpoint().to_bytes();
    let connecting = if role == "server" {
        let request = Listener::bind(device, 7471)?.get_request(LIMIT)?;
        request.with_private_data(&ours).accept(straight)?
    } else {
        Connector::new().private_data(&ours).connect(straight, "10.77.0.1:7471".parse()?)?
    };
    let mut straight = connecting.wait(LIMIT)?;
    to_neighbor.send(Endpoint::from_bytes(straight.private_data())?)?;
    let endpoint = until(device, || from_neighbor.try_recv().ok())?;
    let mut across = across.connect(&endpoint)?;

    for (pair, to) in [(&mut straight, us), (&mut across, 1 - us)] {
        say(pair, &format!("{role} {us} greets you, {to}"))?;
    }
    // The peer may need us until it has heard everything, too, and says so.
    let (mut greetings, mut is_done) = (0, false);
    while greetings < 2 || !is_done {
        match hear(&mut cq, &memory)?.as_str() {
            "bye" => is_done = true,
            greeting => {
                println!("{role} {us} hears: {greeting}");
                greetings += 1;
                if greetings == 2 {
                    say(&mut straight, "bye")?;
                }
            }
        }
    }
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        device.progress();
        thread::yield_now();
    }
    Ok(())
}

fn place(memory: &MemoryRegion, number: u64) -> Result<verbs_api::Sge> {
    let start = usize::try_from(number)? * LEN;
    Ok(memory.slice(start..start + LEN)?)
}

fn say(pair: &mut QueuePair, text: &str) -> Result<()> {
    Ok(pair.post_send(&SendRequest::send(SendData::Inline(text.as_bytes())))?)
}

/// The next message.
fn hear(cq: &mut CompletionQueue, memory: &MemoryRegion) -> Result<String> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        let Some(done) = cq.poll() else {
            thread::yield_now();
            continue;
        };
        let mut text = vec![0; usize::try_from(done.byte_len)?];
        memory.read(usize::try_from(done.wr_id)? * LEN, &mut text)?;
        return Ok(String::from_utf8(text)?);
    }
    Err("nothing was heard for a minute".into())
}

/// What `look` finds in the end; the engine runs meanwhile.
fn until<T>(device: &Device, look: impl Fn() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if let Some(found) = look() {
            return Ok(found);
        }
        device.progress();
        thread::yield_now();
    }
    Err(device
        .link_down()
        .map_or_else(|| "nothing happened for a minute".into(), |why| why.to_string())
        .into())
}
