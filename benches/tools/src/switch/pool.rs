//! Ports for whoever asks: a process connects to a socket, is told its device, and has it until it
//! closes the connection, or dies.

use super::leases::{Leases, Network};
use super::{PortSpec, descriptors};
use crate::error::{Error, Result};
use crate::place::Place;
use datapath::port::{Interrupt, Port};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// How the answer begins if there is no port to give.
const REFUSED: &str = "refused: ";

/// A port that the switch is to have.
pub type Arrival = Box<dyn Port + Send>;

/// The socket, and the thread that answers there. Both go with it.
pub struct Pool {
    socket: PathBuf,
    place: PathBuf,
    stop: Interrupt,
    thread: Option<JoinHandle<()>>,
}

impl Pool {
    /// Answers at `socket` from now on. The switch gets its ports by what is returned, in order.
    ///
    /// # Errors
    /// [`Error::File`]: somebody answers there already, or there cannot be such a socket.
    pub fn start(socket: &Path, network: Network, fixed: usize) -> Result<(Self, Receiver<Arrival>)> {
        let listener = listen(socket).map_err(Error::file("listen at", socket))?;
        let place = Place::new("pool")?;
        let stop = Interrupt::new().map_err(Error::file("watch", socket))?;
        let (arrivals, arriving) = channel();
        let directory = place.path().to_owned();
        let desk = Desk { leases: Leases::new(&network), network, fixed, place, arrivals };
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("pool".to_owned());
        let thread = thread.spawn(move || desk.serve(&listener, &stopped));
        let thread = Some(thread.map_err(Error::file("serve", socket))?);
        Ok((Self { socket: socket.to_owned(), place: directory, stop, thread }, arriving))
    }

    /// The port of that number, from 1 on, as the report calls it.
    #[must_use]
    pub fn port(&self, number: u32) -> String {
        format!("memif:{}", path(&self.place, number).display())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, it has said so.
            let _ = thread.join();
        }
        // It may be gone already.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// A socket where one of a switch that is gone may lie.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(socket) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_left(socket) => {
            std::fs::remove_file(socket)?;
            UnixListener::bind(socket)
        }
        bound => bound,
    }
}

/// Returns `true` if nobody answers there.
fn is_left(socket: &Path) -> bool {
    UnixStream::connect(socket).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

fn path(place: &Path, number: u32) -> PathBuf {
    place.join(format!("{number}.sock"))
}

/// What the thread has.
struct Desk {
    leases: Leases,
    network: Network,
    /// Ports that the switch has besides.
    fixed: usize,
    place: Place,
    arrivals: Sender<Arrival>,
}

impl Desk {
    fn serve(mut self, listener: &UnixListener, stop: &Interrupt) {
        let mut guests: Vec<(UnixStream, u32)> = Vec::new();
        loop {
            let mut watched = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
            watched.extend(guests.iter().map(|(guest, _)| PollFd::new(guest, PollFlags::IN)));
            // A signal, or a kernel short of memory: it looks again.
            let _ = poll(&mut watched, None);
            let ready: Vec<_> = watched.iter().map(|one| !one.revents().is_empty()).collect();
            if ready[0] {
                return;
            }
            let mut gone = ready[2..].iter();
            // A guest has nothing to say: it is gone.
            guests.retain(|(_, number)| {
                let is_gone = gone.next() == Some(&true);
                if is_gone {
                    self.leases.give_back(*number, Instant::now());
                }
                !is_gone
            });
            if ready[1]
                && let Ok((guest, _)) = listener.accept()
            {
                guests.extend(self.receive(guest));
            }
        }
    }

    /// A guest with its number, if it gets one.
    fn receive(&mut self, mut guest: UnixStream) -> Option<(UnixStream, u32)> {
        match self.give() {
            Ok((number, device)) => {
                // If it is gone, the next look finds that out.
                let _ = writeln!(guest, "{device}");
                Some((guest, number))
            }
            Err(why) => {
                let _ = writeln!(guest, "{REFUSED}{why}");
                None
            }
        }
    }

    /// A number, and the device of whoever has it.
    fn give(&mut self) -> std::result::Result<(u32, String), String> {
        let taken = self.leases.take(Instant::now());
        let (number, is_new) =
            taken.ok_or_else(|| format!("all {} addresses of the pool are taken", self.leases.most()))?;
        let socket = path(self.place.path(), number);
        if is_new && let Err(error) = self.open(&socket, number) {
            self.leases.give_back(number, Instant::now());
            return Err(error.to_string());
        }
        let address = self.network.address(number);
        Ok((number, format!("memif:{},role=client,ip={address}", socket.display())))
    }

    /// Makes the port of a number that nobody had.
    fn open(&self, socket: &Path, number: u32) -> Result<()> {
        descriptors::allow(self.fixed + usize::try_from(number).unwrap_or(usize::MAX))?;
        let spec: PortSpec = format!("memif:{}", socket.display())
            .parse()
            .map_err(|error: super::PortSpecError| Error::Options(error.to_string()))?;
        // The switch has ended if nobody takes it.
        let _ = self.arrivals.send(spec.open()?);
        Ok(())
    }
}
