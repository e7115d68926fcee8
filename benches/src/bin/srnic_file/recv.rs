//! The receiving side.

use crate::cli::RecvArgs;
use crate::report::{self, Transfer};
use srnic_benches::channel::Channel;
use srnic_benches::completions::Completions;
use srnic_benches::error::{Error, Result};
use srnic_benches::link::wait_for_link;
use srnic_benches::output;
use srnic_benches::pump::PEER_WAIT;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use verbs_api::{Access, Device, Endpoint, FileBacking, RecvRequest, Role};

/// Receives one file.
pub fn run(args: &RecvArgs) -> Result<()> {
    // What can go wrong without the peer goes wrong first.
    refuse_what_is_no_file(&args.out)?;
    output::check_file(args.common.json.as_deref())?;
    let device = Device::open_spec(&args.common.device.clone().or_role(Role::Server))?;
    let address = SocketAddr::from((args.bind, args.common.port));
    let mut channel = Channel::accept(&device, crate::VERSION, address, Some(PEER_WAIT), || {})?;
    let result = receive(args, &device, &mut channel);
    if let Err(error) = &result {
        channel.say_failed(error);
    }
    report::receiver(&device, result?, args.common.json.as_deref())
}

fn receive(args: &RecvArgs, device: &Device, channel: &mut Channel) -> Result<Transfer> {
    let bytes: u64 = channel.hear(device, "file")?;
    let remote: Endpoint = channel.hear(device, "endpoint")?;
    Channel::check_distinct(device, remote.ip)?;
    let partial = Partial::new(&args.out);
    if bytes == 0 {
        File::create(&partial.path).map_err(Error::file("create", &partial.path))?;
        return end(args, device, channel, partial, Transfer { bytes, time: Duration::ZERO });
    }
    let (pd, mut cq) = (device.alloc_pd(), device.create_cq(16)?);
    let file = FileBacking::create(&partial.path, bytes)?;
    super::send::populate(&file)?;
    let region = pd.register_file(file, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let mut prepared = super::send::queue_pair(&args.common, &pd, &cq).build()?;
    // The last WRITE comes with an immediate, which takes this receive.
    prepared.post_recv(&RecvRequest { wr_id: 0, scatter: &[] })?;
    let local = prepared.endpoint();
    let queue_pair = prepared.connect(&remote)?;
    wait_for_link(device, &args.common.device, || channel.check())?;
    channel.say("region", region.remote())?;
    channel.say("endpoint", local)?;

    let start = Instant::now();
    Completions::new(&mut cq, channel).next("the receive")?;
    let transfer = Transfer { bytes, time: start.elapsed() };
    // Until the sender has its last acknowledgement, the engine must run.
    let ended = end(args, device, channel, partial, transfer);
    drop(queue_pair);
    ended
}

/// Gives the file its name, and waits until the sender knows.
fn end(
    args: &RecvArgs,
    device: &Device,
    channel: &mut Channel,
    partial: Partial,
    transfer: Transfer,
) -> Result<Transfer> {
    partial.complete(&args.out)?;
    channel.say("received", transfer.bytes)?;
    let _: u64 = channel.hear(device, "done")?;
    Ok(transfer)
}

/// The file takes its name by renaming, which replaces whatever has that name: a device node, a pipe or a link as well.
fn refuse_what_is_no_file(out: &Path) -> Result<()> {
    let found = match fs::symlink_metadata(out) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::file("look at", out)(error)),
    };
    let out = out.display();
    let text = if found.is_file() {
        return Ok(());
    } else if found.is_symlink() {
        "is a symbolic link; give the name of the file itself"
    } else if found.is_dir() {
        "is a directory; give the name of a file in it"
    } else {
        "is no regular file and would be replaced; give another name"
    };
    Err(Error::Options(format!("--out {out} {text}")))
}

/// The file while it is incomplete; removed unless it completes.
struct Partial {
    path: PathBuf,
    complete: bool,
}

impl Partial {
    fn new(out: &Path) -> Self {
        let mut path = out.as_os_str().to_owned();
        path.push(".part");
        Self { path: path.into(), complete: false }
    }

    /// Gives it its name.
    fn complete(mut self, out: &Path) -> Result<()> {
        // It may have been made while the bytes came.
        refuse_what_is_no_file(out)?;
        fs::rename(&self.path, out).map_err(Error::file("write", out))?;
        self.complete = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.complete {
            // It may not have been made yet.
            let _ = fs::remove_file(&self.path);
        }
    }
}
