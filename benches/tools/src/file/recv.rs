//! The receiving side.

use super::cli::RecvArgs;
use super::report::{self, Transfer};
use crate::channel::Channel;
use crate::completions::Completions;
use crate::error::{Error, Result};
use crate::link::wait_for_link;
use crate::output;
use crate::pump::PEER_WAIT;
use rustix::fs::statvfs;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
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
    let mut channel = Channel::accept(&device, super::VERSION, address, Some(PEER_WAIT), || {})?;
    let result = receive(args, &device, &mut channel);
    if let Err(error) = &result {
        channel.say_failed(error);
    }
    report::receiver(&device, result?, args.common.json.as_deref())
}

fn receive(args: &RecvArgs, device: &Device, channel: &mut Channel) -> Result<Transfer> {
    let bytes: u64 = channel.hear(device, "file")?;
    refuse_what_is_too_long(args, bytes)?;
    let remote: Endpoint = channel.hear(device, "endpoint")?;
    Channel::check_distinct(device, remote.ip)?;
    let partial = Partial::new(&args.out)?;
    if bytes == 0 {
        File::create_new(&partial.path).map_err(Error::file("create", &partial.path))?;
        return end(args, device, channel, partial, Transfer { bytes, time: Duration::ZERO });
    }
    let (pd, mut cq) = (device.alloc_pd(), device.create_cq(16)?);
    let file = FileBacking::create_new(&partial.path, bytes)?;
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

/// Whoever reaches the port may announce any length.
fn refuse_what_is_too_long(args: &RecvArgs, bytes: u64) -> Result<()> {
    if let Some(max) = args.max_bytes.filter(|max| bytes > *max) {
        let text = format!("the sender announces {bytes} bytes, and --max-bytes allows {max}");
        return Err(Error::Options(text));
    }
    let directory =
        args.out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let disk = statvfs(directory).map_err(|errno| Error::file("look at", directory)(errno.into()))?;
    let room = disk.f_bavail.saturating_mul(disk.f_frsize);
    if bytes > room {
        let text = format!("the sender announces {bytes} bytes, and the disk has room for {room}");
        return Err(Error::Options(text));
    }
    Ok(())
}

/// The file takes its name by renaming, which replaces whatever has that name: a device node, a
/// pipe or a link as well.
fn refuse_what_is_no_file(out: &Path) -> Result<()> {
    let text = match found(out)? {
        Found::Nothing | Found::File => return Ok(()),
        Found::Link => "is a symbolic link; give the name of the file itself",
        Found::Directory => "is a directory; give the name of a file in it",
        Found::Other => "is no regular file and would be replaced; give another name",
    };
    Err(Error::Options(format!("--out {} {text}", out.display())))
}

/// What has a name.
enum Found {
    Nothing,
    File,
    Link,
    Directory,
    Other,
}

fn found(path: &Path) -> Result<Found> {
    Ok(match fs::symlink_metadata(path).map(|about| about.file_type()) {
        Ok(kind) if kind.is_file() => Found::File,
        Ok(kind) if kind.is_symlink() => Found::Link,
        Ok(kind) if kind.is_dir() => Found::Directory,
        Ok(_) => Found::Other,
        Err(error) if error.kind() == ErrorKind::NotFound => Found::Nothing,
        Err(error) => return Err(Error::file("look at", path)(error)),
    })
}

/// The file while it is incomplete; removed unless it completes.
struct Partial {
    path: PathBuf,
    complete: bool,
}

impl Partial {
    /// Its file is not there: what a receiver left that was killed is removed, and nothing else.
    fn new(out: &Path) -> Result<Self> {
        let mut path = out.as_os_str().to_owned();
        path.push(".part");
        let path = PathBuf::from(path);
        let in_the_way = match found(&path)? {
            Found::Nothing => None,
            Found::File => {
                fs::remove_file(&path).map_err(Error::file("remove", &path))?;
                None
            }
            Found::Link => Some("a symbolic link"),
            Found::Directory => Some("a directory"),
            Found::Other => Some("something that is no regular file"),
        };
        match in_the_way {
            None => Ok(Self { path, complete: false }),
            Some(what) => {
                let text = format!("{what} has that name; remove it, or give another --out");
                Err(Error::file("create", &path)(io::Error::other(text)))
            }
        }
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
