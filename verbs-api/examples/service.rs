//! A tokio service: many tasks on one thread, which sleep until messages come. Start it with
//! `cargo run -p verbs-api --features async --example service -- serve /tmp/service.sock`, and then the same with `call`.
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpListener, TcpStream};
use verbs_api::{
    Access, AsyncQueuePair, BufferPool, Completions, Device, Driver, Endpoint, PreparedQueuePair, WcStatus,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

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
    let [role, socket, rest @ ..] = &args[..] else {
        return Err("usage: service serve|call SOCKET [MEET]".into());
    };
    let meet: SocketAddr = rest.first().map_or("127.0.0.1:18517", String::as_str).parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, run(role == "serve", socket, meet))
}

async fn run(serve: bool, socket: &str, meet: SocketAddr) -> Result<()> {
    let end = if serve { "server" } else { "client" };
    let device = Device::builder().driver(Driver::THREAD).open(&format!("memif:{socket},role={end}"))?;
    let completions = Completions::new(&device, 1024)?;
    // The one task that waits for the device; it ends with the program.
    tokio::task::spawn_local(drive(completions.clone()));
    let pd = device.alloc_pd();
    let pool = BufferPool::new(pd.register(MESSAGE * MESSAGES, Access::LOCAL_WRITE)?, MESSAGE)?;
    let prepared = completions.queue_pair(&pd).timeout(18).build()?;
    if serve {
        println!("waiting at {meet}");
        let (stream, _) = TcpListener::bind(meet).await?.accept().await?;
        let pair = AsyncQueuePair::new(&completions, connect(prepared, stream).await?)?;
        answer(&pair, &pool).await
    } else {
        let pair =
            AsyncQueuePair::new(&completions, connect(prepared, TcpStream::connect(meet).await?).await?)?;
        ask(&pair, &pool).await
    }
}

/// Wakes the tasks whose operations have ended.
async fn drive(completions: Completions) -> std::io::Result<()> {
    // SAFETY: the clone keeps the descriptor open, and always names the same one.
    let readable = unsafe { AsyncFd::register(completions.clone()) }.map_err(std::io::Error::from)?;
    loop {
        readable.readable().await?.clear_ready();
        completions.process().map_err(std::io::Error::other)?;
    }
}

/// Each side tells the other where it is.
async fn connect(prepared: PreparedQueuePair, stream: TcpStream) -> Result<verbs_api::QueuePair> {
    let ours = format!("{}\n", prepared.endpoint());
    stream.writable().await?;
    stream.try_write(ours.as_bytes())?;
    let mut theirs = Vec::new();
    while !theirs.ends_with(b"\n") {
        stream.readable().await?;
        let mut block = [0; 256];
        match stream.try_read(&mut block) {
            Ok(0) => return Err("the peer left".into()),
            Ok(count) => theirs.extend_from_slice(&block[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(prepared.connect(&std::str::from_utf8(&theirs)?.trim().parse::<Endpoint>()?)?)
}

/// Sends every message back in capitals, until one is empty.
async fn answer(pair: &AsyncQueuePair, pool: &BufferPool) -> Result<()> {
    let mut messages = pair.receives(pool, MESSAGES / 2);
    let mut answered = 0;
    while let Some(message) = messages.next().await {
        let mut buffer = message?.buffer;
        let text = buffer.to_vec()?.to_ascii_uppercase();
        buffer.set(&text)?;
        // Not awaited: the buffer is the operation's until the peer has it.
        drop(pair.send(buffer));
        if text.is_empty() {
            break;
        }
        answered += 1;
    }
    println!("answered {answered} messages");
    // The last answer may still be under way, and go again.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
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
    pair.send(pool.take().ok_or("all buffers are in use")?).await?;
    println!("asked 1000 times");
    Ok(())
}
