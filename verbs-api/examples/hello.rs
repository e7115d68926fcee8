//! Two processes that write into each other's memory.
use std::io::{BufRead, BufReader, Error, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use verbs_api::{Access, Device, Endpoint, RecvRequest, RemoteRegion, SendData, SendRequest};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, role, socket] = &args[..] else { return Err("usage: hello server|client SOCKET".into()) };
    let device = Device::open(&format!("memif:{socket},role={role}"))?;
    let (pd, mut cq) = (device.alloc_pd(), device.create_cq(16)?);
    let memory = pd.register(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let mut prepared = pd.queue_pair(&cq, &cq).build()?;
    prepared.post_recv(&RecvRequest { wr_id: 1, scatter: &[] })?;

    let theirs = exchange(role == "server", &format!("{} {}", prepared.endpoint(), memory.remote()))?;
    let (endpoint, region) = theirs.trim().split_once(' ').ok_or("the peer said nothing")?;
    let mut pair = prepared.connect(&endpoint.parse::<Endpoint>()?)?;
    let target = region.parse::<RemoteRegion>()?.at(0);
    while !device.link_up() {
        device.progress();
    }

    let text = format!("hello from the {role}");
    pair.post_send(
        &SendRequest::write(SendData::Inline(text.as_bytes()), target).with_imm(7).id(2).signaled(),
    )?;
    // Polling is what runs the engine: go on a while, the peer may still need an acknowledgement.
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let Some(done) = cq.poll() else { continue };
        println!("{:?} {} {:?}", done.opcode, done.wr_id, done.status);
    }
    let mut received = vec![0; text.len()];
    memory.read(0, &mut received)?;
    println!("{}", String::from_utf8_lossy(&received));
    Ok(())
}

/// What each side must know of the other goes over any other channel.
fn exchange(server: bool, ours: &str) -> Result<String, Error> {
    const MEETING: &str = "127.0.0.1:18516";
    let mut peer =
        if server { TcpListener::bind(MEETING)?.accept()?.0 } else { TcpStream::connect(MEETING)? };
    writeln!(peer, "{ours}")?;
    let mut theirs = String::new();
    BufReader::new(peer).read_line(&mut theirs)?;
    Ok(theirs)
}
