//! Ports that a switch gives away (`srnic switch --pool`): a process asks for one when it opens a
//! device, and has it until it closes the connection over which it asked.

use std::io::{self, BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use verbs_api::{DeviceSpec, SpecError};

/// How long a switch may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
/// Keys of the device that is the answer, and those in which it must be as the switch's end is.
const OF_SWITCH: [&str; 4] = ["ip", "role", "mtu", "driver"];
/// How the answer begins if there is none to give.
const REFUSED: &str = "refused: ";

/// `[fault:..:]pool:SOCKET[,KEY=VALUE]..`: where to ask, and what goes before and behind the device
/// that is the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSpec {
    faults: String,
    socket: PathBuf,
    keys: String,
}

/// A port that is this process's for as long as this lives.
#[derive(Debug)]
pub struct Lease {
    _connection: UnixStream,
}

impl PoolSpec {
    /// `None` if the text is of a device with a port of its own.
    pub fn parse(text: &str) -> Option<Self> {
        let (faults, pool) = text.split_once("pool:")?;
        if !(faults.is_empty() || faults.starts_with("fault:") && faults.ends_with(':')) {
            return None;
        }
        let (socket, keys) = pool.split_at(pool.find(',').unwrap_or(pool.len()));
        Some(Self { faults: faults.to_owned(), socket: socket.into(), keys: keys.to_owned() })
    }

    /// Says now what would make no sense of any answer.
    pub fn check(&self) -> Result<(), String> {
        if self.socket.as_os_str().is_empty() {
            return Err(
                "`pool:` names no socket: pool:SOCKET is that of a `srnic switch --pool SOCKET`".to_owned()
            );
        }
        let keys = self.keys.split(',').filter_map(|key| key.split('=').next());
        if let Some(key) = keys.map(str::trim).find(|key| OF_SWITCH.contains(key)) {
            return Err(format!("`{key}=` behind `pool:` is the switch's to say: leave it out"));
        }
        self.device("memif:/tmp/a.sock,role=client,ip=10.77.0.1").map(drop).map_err(|error| error.to_string())
    }

    fn device(&self, answer: &str) -> Result<DeviceSpec, SpecError> {
        format!("{}{answer}{}", self.faults, self.keys).parse()
    }

    fn unanswered(&self, error: &io::Error) -> io::Error {
        let socket = self.socket.display();
        io::Error::new(
            error.kind(),
            format!("no switch answers at {socket} ({error}): start it by `srnic switch --pool {socket}`"),
        )
    }

    /// Asks for a port.
    pub fn take(&self) -> io::Result<(DeviceSpec, Lease)> {
        let connection = UnixStream::connect(&self.socket).map_err(|error| self.unanswered(&error))?;
        connection.set_read_timeout(Some(LIMIT))?;
        let mut answer = String::new();
        BufReader::new(&connection).read_line(&mut answer)?;
        let answer = answer.trim_end();
        if answer.is_empty() {
            return Err(io::Error::other("the switch hung up"));
        }
        if let Some(why) = answer.strip_prefix(REFUSED) {
            return Err(io::Error::other(why.to_owned()));
        }
        let device = self.device(answer).map_err(io::Error::other)?;
        Ok((device, Lease { _connection: connection }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixListener;

    /// What a pool that answers so gives.
    fn taken(name: &str, text: &str, answer: &'static str) -> io::Result<(DeviceSpec, Lease)> {
        let path = std::env::temp_dir().join(format!("srnic-lease-{name}-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a socket");
        let server = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("who asks");
            connection.write_all(answer.as_bytes()).expect("it listens");
        });
        let pool = PoolSpec::parse(&text.replace("SOCKET", &path.to_string_lossy())).expect("a pool");
        let taken = pool.take();
        server.join().expect("it answered");
        std::fs::remove_file(&path).expect("it was there");
        taken
    }

    #[test]
    fn the_answer_is_a_device_between_faults_and_keys() {
        let text = "fault:loss=1%,seed=7:pool:SOCKET,stat=/tmp/7.stat";
        let (device, _lease) =
            taken("good", text, "memif:/run/7.sock,role=client,ip=10.77.0.7\n").expect("a port");
        let whole = "fault:loss=1%,seed=7:memif:/run/7.sock,role=client,ip=10.77.0.7,stat=/tmp/7.stat";
        assert_eq!(device, whole.parse().expect("a device"));
    }

    #[test]
    fn a_switch_that_has_none_says_why() {
        let error = taken("full", "pool:SOCKET", "refused: all 254 addresses are taken\n").expect_err("none");
        assert_eq!(error.to_string(), "all 254 addresses are taken");
        let error = taken("gone", "pool:SOCKET", "").expect_err("none");
        assert_eq!(error.to_string(), "the switch hung up");
    }

    #[test]
    fn other_devices_are_no_pools() {
        for text in ["memif:/tmp/pool:a", "sim:pool", "fault:loss=1%:memif:/a", "queue:pool:/a"] {
            assert_eq!(PoolSpec::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_no_pool_can_give_is_refused_before_anybody_is_asked() {
        for (text, part) in [
            ("pool:/a,colour=red", "colour"),
            ("pool:/a,ip=10.77.0.9", "`ip=`"),
            ("fault:loss=1%:pool:/a,mtu=1500", "`mtu=`"),
            ("pool:/a,role=client", "`role=`"),
            ("pool:", "no socket"),
        ] {
            let error = PoolSpec::parse(text).expect("a pool").check().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        PoolSpec::parse("pool:/a,poll=thread").expect("a pool").check().expect("a key of this process's");
    }

    #[test]
    fn a_switch_that_is_not_there_is_named() {
        let pool = PoolSpec::parse("pool:/nowhere/7.sock").expect("a pool");
        let error = pool.take().expect_err("nobody is there").to_string();
        assert!(error.contains("srnic switch --pool /nowhere/7.sock"), "{error}");
    }
}
