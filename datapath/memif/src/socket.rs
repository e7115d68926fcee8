//! The sockets of shared-memory pairs, and memif's messages over them.

use crate::error::{Error, Refusal};
use crate::message::{LEN, Message};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, recvmsg, sendmsg, socket_with,
};
use std::fs;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Longest path of a socket in bytes: `sun_path` without its terminating NUL.
pub const PATH_MAX: usize = 107;

/// Clients that wait to be let in.
const BACKLOG: i32 = 16;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// How long others may take to become a server: each takes some microseconds.
const TURN: Duration = Duration::from_secs(1);
/// Between two looks whether they have.
const RETRY: Duration = Duration::from_millis(1);

/// A message, and the descriptor beside it.
pub type Received = (Message, Option<OwnedFd>);

/// The file of a socket that somebody listens at. It is removed with this, unless another file has
/// its name by then.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    /// The file at `path`, which was just made.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.into(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // If it cannot be removed, the next server finds it stale.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The socket of a server. Its file goes with it.
#[derive(Debug)]
pub struct Listener {
    /// Goes first: as long as the socket listens, no other has this name.
    file: SocketFile,
    socket: OwnedFd,
}

impl Listener {
    /// Listens at `path`, where nobody else may; what a dead server left there makes room.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn bind(path: &Path) -> Result<Self, Error> {
        let bound = listen_at(path, |path| {
            let socket = open().and_then(|socket| {
                net::bind(&socket, &SocketAddrUnix::new(path)?)?;
                net::listen(&socket, BACKLOG)?;
                Ok(socket)
            });
            socket.map_err(|errno| explained(path, errno))
        });
        let (file, socket) = bound.map_err(|problem| Error::Socket { path: path.into(), problem })?;
        Ok(Self { file, socket })
    }

    /// The path that the socket listens at.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// The next client. Never waits.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if there is none, and what the system says.
    pub fn accept(&self) -> io::Result<OwnedFd> {
        Ok(accept_with(&self.socket, FLAGS)?)
    }
}

/// Readable when a client waits.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Listens at `path` as `listen` does, where nobody else may; what a dead server left there makes
/// room. Drop the file before what listens: as long as that does, no other server has the name.
///
/// # Errors
/// What is in the way, and what to do; those of `listen`.
pub fn listen_at<T>(
    path: &Path,
    listen: impl FnOnce(&Path) -> Result<T, String>,
) -> Result<(SocketFile, T), String> {
    check_length(path)?;
    // What is found there stays as it is until the new socket listens.
    let _turn = take_turn(path)?;
    remove_stale(path)?;
    let listening = listen(path)?;
    let file = SocketFile::new(path).map_err(|error| error.to_string())?;
    Ok((file, listening))
}

/// Refuses a path that no socket can have.
///
/// # Errors
/// What is wrong, and what to do.
pub fn check_length(path: &Path) -> Result<(), String> {
    if path.as_os_str().len() > PATH_MAX {
        return Err(format!("the path is longer than {PATH_MAX} bytes; use a shorter one"));
    }
    Ok(())
}

/// Locks the directory of a socket (`flock`), against whoever else is about to listen there. `None`
/// where it cannot be locked, as one that this user may not read.
fn take_turn(path: &Path) -> Result<Option<OwnedFd>, String> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(dir) = rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    else {
        return Ok(None);
    };
    let deadline = Instant::now() + TURN;
    loop {
        match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(dir)),
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < deadline => thread::sleep(RETRY),
            Err(Errno::AGAIN | Errno::INTR) => {
                return Err("a program keeps its directory locked; end that or use another one".to_owned());
            }
            Err(_) => return Ok(None),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = path.symlink_metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

fn explained(path: &Path, errno: Errno) -> String {
    match errno {
        Errno::NOENT if !path.parent().is_some_and(Path::is_dir) => {
            "its directory does not exist; make it first".to_owned()
        }
        Errno::ACCESS => "this user may not make files in its directory; use another path".to_owned(),
        other => other.to_string(),
    }
}

/// Whether a program listens at a socket.
#[derive(Debug)]
pub enum Presence {
    /// Nobody: the file, if there is one, is what is left of a server.
    Nobody,
    /// A server, of memif or of another protocol: the kernel says at once that its socket is of
    /// another kind.
    Server,
    /// The kernel does not say.
    Unknown(io::Error),
}

/// Finds out whether a program listens at `path`.
#[must_use]
pub fn presence(path: &Path) -> Presence {
    match connect_to(path) {
        // Connected, or a full backlog: somebody listens.
        Ok(_) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Presence::Server,
        Err(Errno::CONNREFUSED | Errno::NOENT) => Presence::Nobody,
        Err(other) => Presence::Unknown(other.into()),
    }
}

/// Makes room for a server: one that was killed leaves its socket, and a new one cannot bind to it.
///
/// # Errors
/// What is in the way, and what to do.
pub fn remove_stale(path: &Path) -> Result<(), String> {
    let file_type = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err("this user may not look into its directory; use another path".to_owned());
        }
        Err(error) => return Err(error.to_string()),
    };
    if !file_type.is_socket() {
        return Err("something that is no socket is there; remove it or use another path".to_owned());
    }
    match presence(path) {
        Presence::Nobody => fs::remove_file(path)
            .map_err(|error| format!("a dead server left it and it cannot be removed: {error}")),
        Presence::Server => Err("another server is listening on it; use another path".to_owned()),
        Presence::Unknown(cause) => {
            Err(format!("cannot tell whether a server is listening ({cause}); use another path"))
        }
    }
}

/// A connection to whoever listens at `path`. Never waits.
///
/// # Errors
/// A full backlog is [`ErrorKind::WouldBlock`]; else what the system says.
pub fn connect(path: &Path) -> io::Result<OwnedFd> {
    Ok(connect_to(path)?)
}

fn connect_to(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = open()?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn open() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)
}

/// Says something; never waits.
///
/// # Errors
/// [`Refusal::Io`] when the other end is closed or does not listen.
pub fn send(socket: &OwnedFd, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> Result<(), Refusal> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        beside.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let bytes = message.encode();
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut beside, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Says why it is over, to a peer that may have gone.
pub fn turn_away(socket: &OwnedFd, why: &Refusal) {
    // It ends in any case.
    let _ = send(socket, &Message::disconnect(&why.to_string()), None);
}

/// The next message, or `None` if there is none yet.
///
/// # Errors
/// [`Refusal::Closed`], [`Refusal::Protocol`] for what is no message of memif's, and what the
/// system says.
pub fn receive(socket: &OwnedFd) -> Result<Option<Received>, Refusal> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; LEN];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut beside, flags) {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(Errno::CONNRESET) => return Err(Refusal::Closed),
        Err(errno) => return Err(errno.into()),
    };
    // What is not asked for is closed.
    let mut descriptors = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.next().and_then(|mut descriptors| descriptors.next());
    if got.bytes == 0 {
        return Err(Refusal::Closed);
    }
    if got.flags.contains(ReturnFlags::CTRUNC) && descriptor.is_none() {
        // None came of those that were sent: this process has as many as it may.
        return Err(Errno::MFILE.into());
    }
    if got.bytes != LEN || got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Refusal::Protocol("a message is not 128 bytes long"));
    }
    let message = Message::decode(&bytes).ok_or(Refusal::Protocol("a message of no known kind"))?;
    Ok(Some((message, descriptor)))
}
