//! QEMU's monitor, which pulls cables and takes devices out.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Longest time until it answers.
const ANSWER: Duration = Duration::from_secs(60);

/// A connection to the monitor.
pub struct Monitor {
    lines: BufReader<UnixStream>,
}

impl Monitor {
    /// Connects to the socket.
    pub fn connect(socket: &Path) -> Result<Self> {
        let fails = |e| Error::io("connect to", socket, &e);
        let stream = UnixStream::connect(socket).map_err(fails)?;
        stream.set_read_timeout(Some(ANSWER)).map_err(fails)?;
        let mut monitor = Self { lines: BufReader::new(stream) };
        // Its greeting.
        monitor.line()?;
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// The cable of a NIC is plugged in, or pulled.
    pub fn set_link(&mut self, device: &str, up: bool) -> Result<()> {
        self.execute("set_link", &json!({ "name": device, "up": up }))
    }

    /// Asks the guest to let go of a device, which leaves once it has.
    pub fn remove(&mut self, device: &str) -> Result<()> {
        self.execute("device_del", &json!({ "id": device }))
    }

    fn execute(&mut self, command: &str, arguments: &Value) -> Result<()> {
        println!("monitor: {command} {arguments}");
        let text = format!("{}\n", json!({ "execute": command, "arguments": arguments }));
        let stream = self.lines.get_mut();
        stream.write_all(text.as_bytes()).map_err(|e| Error(format!("QEMU's monitor: {e}")))?;
        loop {
            let answer = self.line()?;
            // Events come in between.
            if answer.get("return").is_some() {
                return Ok(());
            }
            if let Some(error) = answer.get("error") {
                return Err(Error(format!("QEMU's monitor refuses {command} {arguments}: {error}")));
            }
        }
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).map_err(|e| Error(format!("QEMU's monitor: {e}")))?;
        if read == 0 {
            return Err(Error::new("QEMU's monitor has ended"));
        }
        serde_json::from_str(&line).map_err(|e| Error(format!("QEMU's monitor says {line:?}: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// A monitor that says these lines, after its greeting, and tells what it was told.
    fn outcome(says: &'static str) -> (Result<()>, Vec<String>) {
        let scratch = Scratch::new().expect("a directory of our own");
        let socket = scratch.path().join("qmp");
        let listener = UnixListener::bind(&socket).expect("it is free");
        let qemu = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("somebody comes");
            let text = format!("{{\"QMP\": {{}}}}\n{{\"return\": {{}}}}\n{says}");
            (&stream).write_all(text.as_bytes()).expect("it is read");
            BufReader::new(&stream).lines().take(2).map_while(std::result::Result::ok).collect()
        });
        let result = Monitor::connect(&socket).and_then(|mut monitor| monitor.set_link("nic1", false));
        (result, qemu.join().expect("it ends"))
    }

    #[test]
    fn an_event_is_no_answer() {
        let (result, told) = outcome("{\"event\": \"STOP\"}\n{\"return\": {}}\n");
        assert_eq!(result, Ok(()));
        let sent: Value = serde_json::from_str(&told[1]).expect("JSON");
        assert_eq!(sent, json!({ "execute": "set_link", "arguments": { "name": "nic1", "up": false } }));
    }

    #[test]
    fn a_refusal_says_what_was_refused() {
        let (result, _) = outcome("{\"error\": {\"desc\": \"no such device\"}}\n");
        let error = result.expect_err("refused").0;
        assert!(error.contains("set_link") && error.contains("no such device"), "{error}");
    }
}
