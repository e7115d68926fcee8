//! A WRITE into the memory of a peer, over a network in this process that loses packets.
use verbs_api::{Access, Device, Driver, SendData, SendRequest};

fn main() {
    if let Err(error) = write() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn write() -> Result<(), Box<dyn std::error::Error>> {
    let here = Device::open("fault:loss=1%:sim:first")?;
    let there = Device::builder().driver(Driver::THREAD).open("sim:first")?;
    let (pd, mut cq) = (here.alloc_pd(), here.create_cq(16)?);
    let (its_pd, its_cq) = (there.alloc_pd(), there.create_cq(16)?);
    let memory = its_pd.register(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let (one, two) = (pd.queue_pair(&cq, &cq).build()?, its_pd.queue_pair(&its_cq, &its_cq).build()?);
    let ends = (one.endpoint(), two.endpoint());
    let (mut pair, _peer) = (one.connect(&ends.1)?, two.connect(&ends.0)?);
    pair.post_send(&SendRequest::write(SendData::Inline(b"hello"), memory.remote().at(0)).signaled())?;
    let done = std::iter::repeat_with(|| cq.poll()).flatten().next();
    let mut received = [0; 5];
    memory.read(0, &mut received)?;
    println!("{}: {}", done.ok_or("nothing completed")?.status, String::from_utf8_lossy(&received));
    Ok(())
}
