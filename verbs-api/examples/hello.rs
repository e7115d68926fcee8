//! Two processes that write into each other's memory.
use std::process::ExitCode;
use std::time::{Duration, Instant};
use verbs_api::{Access, Connector, Device, Listener, RecvRequest, RemoteRegion, SendData, SendRequest};

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    // As text it says what to do.
    eprintln!("{error}");
    ExitCode::FAILURE
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, role, socket] = &args[..] else { return Err("usage: hello server|client SOCKET".into()) };
    let device = Device::open(&format!("memif:{socket},role={role}"))?;
    let (pd, mut cq) = (device.alloc_pd(), device.create_cq(16)?);
    let memory = pd.register(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let mut prepared = pd.queue_pair(&cq, &cq).build()?;
    prepared.post_recv(&RecvRequest { wr_id: 1, scatter: &[] })?;
    let limit = Duration::from_secs(20);
    device.wait_link(limit)?;

    // Each side tells the other where it may write.
    let ours = memory.remote().to_bytes();
    let connecting = if role == "server" {
        let request = Listener::bind(&device, 7471)?.get_request(limit)?;
        request.with_private_data(&ours).accept(prepared)?
    } else {
        let connector = Connector::new().private_data(&ours);
        connector.connect(prepared, "10.77.0.1:7471".parse()?)?
    };
    let mut pair = connecting.wait(limit)?;
    let target = RemoteRegion::from_bytes(pair.private_data())?.at(0);

    let text = format!("hello from the {role}");
    pair.post_send(
        &SendRequest::write(SendData::Inline(text.as_bytes()), target).with_imm(7).id(2).signaled(),
    )?;
    // Polling is what runs the engine: go on a while, the peer may still need an acknowledgement.
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let Some(done) = cq.poll() else { continue };
        println!("{:?} {}: {}", done.opcode, done.wr_id, done.status);
    }
    let mut received = vec![0; text.len()];
    memory.read(0, &mut received)?;
    println!("{}", String::from_utf8_lossy(&received));
    Ok(())
}
