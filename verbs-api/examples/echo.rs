//! A server that sends back what it gets, to any number of clients, and a client: connections by
//! address and port.
//!
//! `echo server memif:/tmp/echo.sock,role=server`, and in another terminal `echo client
//! memif:/tmp/echo.sock,role=client 10.77.0.1 one two three`. With more than one client the devices
//! are ports of a `srnic switch`, or interfaces.
use std::collections::HashMap;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;
use verbs_api::{
    Access, Completion, Connecting, Device, Listener, MemoryRegion, PreparedQueuePair, ProtectionDomain,
    QueuePair, RecvRequest, SendData, SendRequest, WcOpcode, WcStatus,
};

const PORT: u16 = 7471;
const MESSAGE: usize = 1024;
const LIMIT: Duration = Duration::from_secs(30);

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

fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [role, device] if role == "server" => serve(&Device::open(device)?),
        [role, device, server, words @ ..] if role == "client" => {
            ask(&Device::open(device)?, server.parse()?, words)
        }
        _ => Err("usage: echo server DEVICE | echo client DEVICE SERVER WORD..".into()),
    }
}

/// A connection, and where its messages go.
struct Client {
    pair: QueuePair,
    inbox: MemoryRegion,
}

impl Client {
    /// Sends back what came, and then takes the next message. False if the client has disconnected.
    fn handle(&mut self, done: &Completion) -> Result<bool, Box<dyn Error>> {
        match (done.status, done.opcode) {
            (WcStatus::Success, WcOpcode::Recv) => {
                let echo = [self.inbox.slice(..done.byte_len as usize)?];
                self.pair.post_send(&SendRequest::send(SendData::Gather(&echo)).signaled())?;
            }
            (WcStatus::Success, _) => {
                self.pair.post_recv(&RecvRequest { wr_id: 0, scatter: &[self.inbox.slice(..)?] })?;
            }
            // The receive that waited.
            (WcStatus::WrFlushErr, _) if self.pair.is_disconnected() => return Ok(false),
            (failure, _) => return Err(failure.to_string().into()),
        }
        Ok(true)
    }
}

fn serve(device: &Device) -> Result<(), Box<dyn Error>> {
    let (pd, mut cq) = (device.alloc_pd(), device.create_cq(4096)?);
    let listener = Listener::bind(device, PORT)?;
    println!("listening on {}", listener.local_addr());
    // Both by the number of the queue pair, which each completion has.
    let mut coming: HashMap<u32, (Connecting, MemoryRegion)> = HashMap::new();
    let mut clients: HashMap<u32, Client> = HashMap::new();
    let mut early: Vec<Completion> = Vec::new();
    // Nothing in this loop waits, so no client waits for another. Polling runs the engine, and so
    // the listener, too.
    loop {
        if let Some(request) = listener.poll() {
            let (pair, inbox) = prepare(&pd, pd.queue_pair(&cq, &cq).build()?)?;
            let qpn = pair.qpn();
            match request.accept(pair) {
                Ok(connecting) => drop(coming.insert(qpn, (connecting, inbox))),
                Err(error) => println!("{error}"),
            }
        }
        for (qpn, (mut connecting, inbox)) in std::mem::take(&mut coming) {
            match connecting.poll() {
                Ok(None) => drop(coming.insert(qpn, (connecting, inbox))),
                Ok(Some(pair)) => {
                    let peer = pair.peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
                    clients.insert(qpn, Client { pair, inbox });
                    println!("{peer} connects: {} clients", clients.len());
                }
                Err(error) => println!("{error}"),
            }
        }
        let mut completions = std::mem::take(&mut early);
        completions.extend(std::iter::from_fn(|| cq.poll()));
        for done in completions {
            // A message may be here before the word that its sender is ready.
            if coming.contains_key(&done.qpn) {
                early.push(done);
            }
            let Some(client) = clients.get_mut(&done.qpn) else { continue };
            let goes_on = client.handle(&done).unwrap_or_else(|error| {
                println!("{error}");
                false
            });
            if !goes_on {
                clients.remove(&done.qpn);
                println!("one leaves: {} clients", clients.len());
            }
        }
    }
}

/// Posts a receive before the peer can send.
fn prepare(
    pd: &ProtectionDomain,
    mut pair: PreparedQueuePair,
) -> Result<(PreparedQueuePair, MemoryRegion), verbs_api::Error> {
    let inbox = pd.register(MESSAGE, Access::LOCAL_WRITE)?;
    pair.post_recv(&RecvRequest { wr_id: 0, scatter: &[inbox.slice(..)?] })?;
    Ok((pair, inbox))
}

fn ask(device: &Device, server: IpAddr, words: &[String]) -> Result<(), Box<dyn Error>> {
    let (pd, mut cq) = (device.alloc_pd(), device.create_cq(16)?);
    device.wait_link(LIMIT)?;
    let (pair, inbox) = prepare(&pd, pd.queue_pair(&cq, &cq).build()?)?;
    let mut pair = pair.connect_to(SocketAddr::new(server, PORT), LIMIT)?;
    let outbox = pd.register(MESSAGE, Access::LOCAL_WRITE)?;
    for word in words {
        outbox.write(0, word.as_bytes())?;
        pair.post_send(&SendRequest::send(SendData::Gather(&[outbox.slice(..word.len())?])))?;
        let echo = loop {
            if let Some(done) = cq.poll() {
                break done;
            }
        };
        if echo.status != WcStatus::Success {
            return Err(echo.status.to_string().into());
        }
        let mut bytes = vec![0; echo.byte_len as usize];
        inbox.read(0, &mut bytes)?;
        println!("{}", String::from_utf8_lossy(&bytes));
        pair.post_recv(&RecvRequest { wr_id: 0, scatter: &[inbox.slice(..)?] })?;
    }
    pair.disconnect(LIMIT)?;
    Ok(())
}
