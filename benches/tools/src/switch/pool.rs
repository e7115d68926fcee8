//! Ports for whoever asks: a process connects to a socket, asks by a line, is told its device, and
//! has it until it closes the connection, or dies. verbs-api's `pool.rs` is who asks.

use super::PortSpec;
use super::leases::{Given, Leases, Network};
use crate::descriptors::{self, Of};
use crate::error::{Error, Result};
use crate::place::Place;
use datapath::port::{Interrupt, Port};
use memif::socket::{SocketFile, listen_at};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How the answer begins if there is no port to give.
const REFUSED: &str = "refused: ";
/// Bytes of a question at most.
const QUESTION_MAX: usize = 128;
/// Guests that have not asked yet, at most; others wait outside.
const ASKING_MAX: usize = 64;
/// How long a guest may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the desk rests if it can neither watch nor accept: there are no descriptors, or no
/// memory.
const REST: Duration = Duration::from_millis(20);
const UNKNOWN: &str = "a question is `port`, or `port ip=ADDRESS` for one address only";

/// A port that the switch is to have.
pub struct Arrival {
    /// As the report calls it.
    pub name: String,
    pub port: Box<dyn Port + Send>,
}

/// The socket, and the thread that answers there. Both go with it.
pub struct Pool {
    file: Option<SocketFile>,
    stop: Interrupt,
    thread: Option<JoinHandle<()>>,
}

impl Pool {
    /// Answers at `socket` from now on. The switch gets its ports by what is returned, in order.
    ///
    /// # Errors
    /// [`Error::File`]: somebody answers there already, or there cannot be such a socket.
    pub fn start(socket: &Path, network: Network, fixed: usize) -> Result<(Self, Receiver<Arrival>)> {
        let (file, listener) = listen(socket).map_err(Error::file("listen at", socket))?;
        let place = Place::new("pool")?;
        let stop = Interrupt::new().map_err(Error::file("watch", socket))?;
        let (arrivals, arriving) = channel();
        let desk = Desk { leases: Leases::new(network), ports: fixed, place, arrivals };
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("pool".to_owned());
        let thread = thread.spawn(move || desk.serve(&listener, &stopped));
        let thread = Some(thread.map_err(Error::file("serve", socket))?);
        Ok((Self { file: Some(file), stop, thread }, arriving))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // As long as the thread listens, no other switch has the name.
        drop(self.file.take());
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, it has said so.
            let _ = thread.join();
        }
    }
}

/// A socket where one of a switch that is gone may lie, and its file.
fn listen(socket: &Path) -> io::Result<(SocketFile, UnixListener)> {
    let bind = |path: &Path| UnixListener::bind(path).map_err(|error| error.to_string());
    listen_at(socket, bind).map_err(io::Error::other)
}

/// What the thread has.
struct Desk {
    leases: Leases,
    /// Ports that the switch has, its own included.
    ports: usize,
    place: Place,
    arrivals: Sender<Arrival>,
}

/// A process at the desk.
struct Guest {
    connection: UnixStream,
    came: Instant,
    /// What it has sent of its question.
    question: Vec<u8>,
    /// The number of its port, once it has one.
    number: Option<u32>,
}

impl Desk {
    fn serve(mut self, listener: &UnixListener, stop: &Interrupt) {
        let mut guests: Vec<Guest> = Vec::new();
        loop {
            let asking = guests.iter().filter(|guest| guest.number.is_none()).count();
            let door = if asking < ASKING_MAX { PollFlags::IN } else { PollFlags::empty() };
            let mut watched = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(listener, door)];
            watched.extend(guests.iter().map(|guest| PollFd::new(&guest.connection, PollFlags::IN)));
            let limit = (asking > 0).then(|| PATIENCE.try_into().ok()).flatten();
            if let Err(error) = poll(&mut watched, limit.as_ref())
                && error != Errno::INTR
            {
                std::thread::sleep(REST);
            }
            let ready: Vec<_> = watched.iter().map(|one| !one.revents().is_empty()).collect();
            if ready[0] {
                return;
            }
            let mut heard = ready[2..].iter();
            guests.retain_mut(|guest| {
                let is_patient = guest.number.is_some() || guest.came.elapsed() < PATIENCE;
                if heard.next() == Some(&true) { self.hear(guest) } else { is_patient }
            });
            if ready[1] {
                match accepted(listener) {
                    Ok(guest) => guests.push(guest),
                    Err(_) => std::thread::sleep(REST),
                }
            }
        }
    }

    /// Takes what a guest has to say. False if it is to leave, or has gone.
    fn hear(&mut self, guest: &mut Guest) -> bool {
        let mut bytes = [0; QUESTION_MAX];
        let came = match guest.connection.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(_) => 0,
        };
        if came == 0 {
            if let Some(number) = guest.number {
                self.leases.give_back(number, Instant::now());
            }
            return false;
        }
        if guest.number.is_some() {
            // It has its port, and nothing more to say.
            return true;
        }
        guest.question.extend_from_slice(&bytes[..came]);
        let line = guest.question.iter().position(|byte| *byte == b'\n');
        let answer = match line {
            Some(end) => self.answer(&guest.question[..end]),
            None if guest.question.len() < QUESTION_MAX => return true,
            None => Err(UNKNOWN.to_owned()),
        };
        let text = match &answer {
            Ok((_, device)) => device.clone(),
            Err(why) => format!("{REFUSED}{why}"),
        };
        // If it is gone, the next look finds that out.
        let _ = writeln!(guest.connection, "{text}");
        guest.number = answer.ok().map(|(number, _)| number);
        guest.number.is_some()
    }

    /// A number, and the device of the process that has it.
    fn answer(&mut self, question: &[u8]) -> std::result::Result<(u32, String), String> {
        let wanted = wanted(question).ok_or(UNKNOWN)?;
        let Given { number, is_new } = match wanted {
            Some(address) => self.leases.take_address(address),
            None => self.leases.take(Instant::now()),
        }?;
        let socket = self.place.path().join(format!("{number}.sock"));
        let address = self.leases.network().address(number);
        if is_new && let Err(error) = self.open(&socket, address) {
            self.leases.take_back(number);
            return Err(error.to_string());
        }
        Ok((number, format!("memif:{},role=client,ip={address}", socket.display())))
    }

    /// Makes the port of an address that nobody had.
    fn open(&mut self, socket: &Path, address: Ipv4Addr) -> Result<()> {
        descriptors::allow(self.ports + 1, Of::Ports)?;
        let spec: PortSpec = format!("memif:{}", socket.display())
            .parse()
            .map_err(|error: super::PortSpecError| Error::Options(error.to_string()))?;
        // The switch has ended if nobody takes it.
        let _ = self.arrivals.send(Arrival { name: format!("pool:{address}"), port: spec.open()? });
        self.ports += 1;
        Ok(())
    }
}

fn accepted(listener: &UnixListener) -> io::Result<Guest> {
    let (connection, _) = listener.accept()?;
    connection.set_nonblocking(true)?;
    Ok(Guest { connection, came: Instant::now(), question: Vec::new(), number: None })
}

/// The address that is asked for, if any will not do; `None` if this is no question.
fn wanted(question: &[u8]) -> Option<Option<IpAddr>> {
    match std::str::from_utf8(question).ok()?.trim_end().strip_prefix("port")? {
        "" => Some(None),
        more => more.strip_prefix(" ip=")?.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_for_a_port_or_for_one_of_an_address() {
        assert_eq!(wanted(b"port"), Some(None));
        assert_eq!(wanted(b"port\r"), Some(None));
        assert_eq!(wanted(b"port ip=10.77.0.9"), Some(Some(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 9)))));
        for other in [&b""[..], b"ports", b"port ip=", b"port ip=nine", b"a port ip=10.77.0.9", b"port \xff"]
        {
            assert_eq!(wanted(other), None, "{other:?}");
        }
    }
}
