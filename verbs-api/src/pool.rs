//! A port of `srnic switch --pool`: what is asked, what is answered, and how long it is ours.
//!
//! A process connects to the switch's socket and sends a line: `port`, or `port ip=ADDRESS` for one
//! address only. The answer is a line, too: a device string, or `refused: ` and why. The process
//! has the port for as long as it keeps the connection.

use crate::error::Error;
use crate::spec::{DeviceSpec, Transport};
use core::net::IpAddr;
use core::time::Duration;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// How long a switch may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
/// Bytes of an answer at most.
const ANSWER_MAX: u64 = 4096;
/// How the answer begins if there is no port to give.
const REFUSED: &str = "refused: ";

/// A port that is this device's for as long as this lives.
#[derive(Debug)]
pub struct Lease {
    connection: UnixStream,
    socket: PathBuf,
}

impl Lease {
    /// What to do, if the switch has ended: its ports never have a link again.
    pub fn lost(&self) -> Option<String> {
        // It says nothing after its answer, so what is read is the end.
        let alive =
            matches!((&self.connection).read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        let socket = self.socket.display();
        (!alive).then(|| {
            format!("the switch of pool {socket} has ended; start `srnic switch --pool {socket}` again, and then this program")
        })
    }
}

/// Asks the switch at `socket` for a port. What is returned first is `spec` with that port and its
/// address.
pub fn take(spec: &DeviceSpec, socket: &Path) -> Result<(DeviceSpec, Lease), Error> {
    let fails = |why: String| Error::Pool { socket: socket.to_owned(), why };
    let no_answer = |error: io::Error| fails(format!("it does not answer: {error}"));
    let connection = UnixStream::connect(socket).map_err(|error| fails(nobody(socket, &error)))?;
    let answer = ask(&connection, spec.ip).map_err(no_answer)?;
    if let Some(why) = answer.strip_prefix(REFUSED) {
        return Err(fails(why.to_owned()));
    }
    let given: Option<DeviceSpec> = answer.parse().ok();
    let given = given.filter(|given| matches!(given.transport, Transport::Memif { .. }));
    let given = given.ok_or_else(|| fails(format!("it answers `{answer}`, which is no port")))?;
    let DeviceSpec { transport, ip, mtu, .. } = given;
    connection.set_nonblocking(true).map_err(no_answer)?;
    let lease = Lease { connection, socket: socket.to_owned() };
    Ok((DeviceSpec { transport, ip, mtu, ..spec.clone() }, lease))
}

fn nobody(socket: &Path, error: &io::Error) -> String {
    format!("nobody answers ({error}); start `srnic switch --pool {}`", socket.display())
}

fn ask(mut connection: &UnixStream, ip: Option<IpAddr>) -> io::Result<String> {
    connection.set_read_timeout(Some(LIMIT))?;
    connection.set_write_timeout(Some(LIMIT))?;
    let wanted = ip.map_or(String::new(), |ip| format!(" ip={ip}"));
    connection.write_all(format!("port{wanted}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(connection).take(ANSWER_MAX).read_line(&mut answer)?;
    match answer.strip_suffix('\n') {
        Some(answer) => Ok(answer.to_owned()),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Role;
    use std::os::unix::net::UnixListener;

    /// What a switch that answers so gives, and what it was asked.
    fn taken(name: &str, device: &str, answer: &'static str) -> (Result<(DeviceSpec, Lease), Error>, String) {
        let path = std::env::temp_dir().join(format!("srnic-pool-test-{name}-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a socket");
        let switch = std::thread::spawn(move || {
            let (connection, _) = listener.accept().expect("a process that asks");
            let mut question = String::new();
            BufReader::new(&connection).read_line(&mut question).expect("a line");
            (&connection).write_all(answer.as_bytes()).expect("the process listens");
            question
        });
        let spec: DeviceSpec = device.replace("SOCKET", &path.to_string_lossy()).parse().expect("a pool");
        let taken = take(&spec, &path);
        let question = switch.join().expect("the switch answered");
        std::fs::remove_file(&path).expect("the socket is there");
        (taken, question)
    }

    #[test]
    fn the_device_has_the_port_of_the_answer_and_what_its_string_says() {
        let device = "fault:loss=1%,seed=7:pool:SOCKET,stat=/tmp/7.stat,vlan=5";
        let (taken, question) = taken("given", device, "memif:/tmp/p/3.sock,role=client,ip=10.77.0.3\n");
        let (spec, _lease) = taken.expect("a port");
        let expected =
            "fault:loss=1%,seed=7:memif:/tmp/p/3.sock,role=client,ip=10.77.0.3,stat=/tmp/7.stat,vlan=5";
        assert_eq!(Ok(spec), expected.parse());
        assert_eq!(question, "port\n");
    }

    #[test]
    fn a_lease_tells_when_its_switch_has_ended() {
        let (connection, switch) = UnixStream::pair().expect("a pair");
        connection.set_nonblocking(true).expect("set");
        let lease = Lease { connection, socket: "/tmp/p".into() };
        assert_eq!(lease.lost(), None);
        drop(switch);
        let said = lease.lost().expect("it has ended");
        assert!(
            said.starts_with("the switch of pool /tmp/p has ended; start `srnic switch --pool /tmp/p`"),
            "{said}"
        );
    }

    #[test]
    fn an_address_is_asked_for() {
        let (taken, question) =
            taken("asked", "pool:SOCKET,ip=10.77.0.9", "memif:/tmp/9.sock,role=client,ip=10.77.0.9\n");
        let (spec, _lease) = taken.expect("a port");
        assert_eq!(spec.role(), Ok(Some(Role::Client)));
        assert_eq!(question, "port ip=10.77.0.9\n");
    }

    #[test]
    fn no_port_is_an_error_that_names_the_socket_and_says_why() {
        for (name, answer, why) in [
            (
                "taken",
                "refused: all 2 addresses of the pool are taken\n",
                "all 2 addresses of the pool are taken",
            ),
            ("scheme", "sim:a,ip=10.77.0.3\n", "it answers `sim:a,ip=10.77.0.3`, which is no port"),
            ("garbage", "no device\n", "it answers `no device`, which is no port"),
            ("silent", "", "it does not answer"),
            ("cut", "memif:/tmp/p/3.so", "it does not answer"),
        ] {
            let (taken, _) = taken(name, "pool:SOCKET", answer);
            let said = taken.expect_err(answer).to_string();
            assert!(said.starts_with("the pool at /") && said.contains(why), "{answer}: {said}");
        }
        let nobody = Path::new("/nonexistent/pool.sock");
        let spec = "pool:/nonexistent/pool.sock".parse().expect("a pool");
        let said = take(&spec, nobody).expect_err("nobody is there").to_string();
        assert!(said.ends_with("start `srnic switch --pool /nonexistent/pool.sock`"), "{said}");
    }
}
