//! A tokio service: many tasks on one thread, which sleep until messages come. Start it with `cargo
//! run -p verbs-api --features tokio --example service -- serve /tmp/service.sock`, and then the
//! same with `call`.
use std::error::Error;
use std::process::ExitCode;
use verbs_api::{
    Access, AsyncQueuePair, BufferPool, Completions, Connector, Device, Driver, Error as VerbsError,
    Listener, WcStatus,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PORT: u16 = 7471;
/// Bytes of a message at most, and how many there may be.
const MESSAGE: usize = 1024;
const MESSAGES: usize = 64;

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // As text it says what to do.
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let serve = match &args[..] {
        [role, _] if role == "serve" => true,
        [role, _] if role == "call" => false,
        _ => return Err("usage: service serve|call SOCKET".into()),
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(serve, &args[1]))
}

async fn run(serve: bool, socket: &str) -> Result<()> {
    let end = if serve { "server" } else { "client" };
    let device = Device::builder().driver(Driver::THREAD).open(&format!("memif:{socket},role={end}"))?;
    let completions = Completions::new(&device, 1024)?;
    // Wakes the tasks whose operations have ended; it ends with the completions.
    tokio::spawn(completions.drive());
    let pd = device.alloc_pd();
    let pool = BufferPool::new(pd.register(MESSAGE * MESSAGES, Access::LOCAL_WRITE)?, MESSAGE)?;
    let prepared = completions.queue_pair(&pd).timeout(18).build()?;
    if serve {
        let listener = Listener::bind(&device, PORT)?;
        println!("waiting at {}", listener.local_addr());
        let pair = listener.request().await?.accept(prepared)?.await?;
        answer(&AsyncQueuePair::new(&completions, pair)?, &pool).await
    } else {
        // Until the peer is there; each event is told once, and may have come before.
        while !device.link_up() {
            device.next_event().await?;
        }
        let pair = Connector::new().connect(prepared, ([10, 77, 0, 1], PORT).into())?.await?;
        ask(&AsyncQueuePair::new(&completions, pair)?, &pool).await
    }
}

/// Sends every message back in capitals, until the client disconnects.
async fn answer(pair: &AsyncQueuePair, pool: &BufferPool) -> Result<()> {
    let mut messages = pair.receives(pool, MESSAGES / 2);
    let mut answered = 0;
    while let Some(message) = messages.next().await {
        let message = match message {
            Err(VerbsError::Disconnected) => break,
            message => message?,
        };
        if message.completion.status != WcStatus::Success {
            return Err(format!("a receive failed with {}", message.completion.status).into());
        }
        let mut buffer = message.buffer;
        let text = buffer.to_vec()?.to_ascii_uppercase();
        buffer.set(&text)?;
        // Not awaited: the buffer is the operation's until the peer has it.
        drop(pair.send(buffer));
        answered += 1;
    }
    println!("answered {answered} messages");
    Ok(())
}

/// Asks, and checks the answers.
async fn ask(pair: &AsyncQueuePair, pool: &BufferPool) -> Result<()> {
    let mut answers = pair.receives(pool, MESSAGES / 2);
    for number in 0..1000 {
        let mut question = pool.take().ok_or("all buffers are in use")?;
        question.set(format!("message {number}").as_bytes())?;
        let sent = pair.send(question).await?;
        if sent.completion.status != WcStatus::Success {
            return Err(format!("message {number} failed with {}", sent.completion.status).into());
        }
        let answer = answers.next().await.ok_or("the service is gone")??.buffer.to_vec()?;
        if answer != format!("MESSAGE {number}").as_bytes() {
            return Err(format!("message {number} came back as {answer:?}").into());
        }
    }
    println!("asked 1000 times");
    Ok(pair.disconnect().await?)
}
