//! Looks in a file: a JSON document a line, so that a file that was not finished can be read as far
//! as it goes.

use super::source::Look;
use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What was recorded.
#[derive(Debug, Default)]
pub struct Recording {
    /// Of the devices, in the order in which they come first.
    pub addresses: Vec<String>,
    pub looks: Vec<Look>,
}

/// A file to which looks are added.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: File,
}

impl Recorder {
    /// A new file; one that is there is replaced.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(Error::file("write", path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Adds what the device at `address` has told.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn add(&mut self, address: &str, look: &Look) -> Result<()> {
        let mut line = json!({ "time": look.time, "address": address });
        match &look.answer {
            Ok(text) => line["metrics"] = text.as_str().into(),
            Err(error) => line["error"] = error.to_string().into(),
        }
        writeln!(self.file, "{line}").map_err(Error::file("write", &self.path))
    }
}

impl Recording {
    /// Reads a file. A last line that is not whole is passed over: who wrote it was stopped.
    ///
    /// # Errors
    /// [`Error::File`], also if it is no recording.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
        Self::parse(&text).map_err(Error::file("replay", path))
    }

    fn parse(text: &str) -> io::Result<Self> {
        let mut recording = Self::default();
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            if line.ends_with('\n') {
                let wrong = || io::Error::other(format!("line {number} is no look that srnic stat recorded"));
                recording.take(line).ok_or_else(wrong)?;
            }
        }
        if recording.looks.is_empty() {
            return Err(io::Error::other("nothing is recorded in it"));
        }
        Ok(recording)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let line: Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
        let address = text("address")?;
        let answer = match (text("metrics"), text("error")) {
            (Some(metrics), _) => Ok(metrics),
            (None, error) => Err(io::Error::other(error?)),
        };
        let known = self.addresses.iter().position(|known| *known == address);
        let device = known.unwrap_or(self.addresses.len());
        if known.is_none() {
            self.addresses.push(address);
        }
        self.looks.push(Look { device, time: line.get("time")?.as_f64()?, answer });
        Some(())
    }
}

/// What a clock on the wall says.
pub fn seconds_since_1970() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_again() {
        let path = std::env::temp_dir().join(format!("srnic-record-{}", std::process::id()));
        let mut recorder = Recorder::create(&path).expect("a file");
        let look = |device, time, answer| Look { device, time, answer };
        recorder.add("/b", &look(0, 5.5, Ok("srnic_link_up 1\n".to_owned()))).expect("written");
        recorder.add("/a", &look(1, 6.0, Err(io::Error::other("gone")))).expect("written");
        recorder.add("/b", &look(0, 6.5, Ok(String::new()))).expect("written");
        let text = fs::read_to_string(&path).expect("it is there");
        // As if the disk were full in the middle of the last line.
        fs::write(&path, format!("{text}{{\"time\":7")).expect("written");
        let recording = Recording::read(&path).expect("it is one");
        fs::remove_file(&path).expect("ours");
        assert_eq!(recording.addresses, ["/b", "/a"]);
        let answers: Vec<_> = recording
            .looks
            .iter()
            .map(|look| {
                (
                    look.device,
                    look.time,
                    look.answer.as_ref().map(String::as_str).map_err(ToString::to_string),
                )
            })
            .collect();
        assert_eq!(
            answers,
            [(0, 5.5, Ok("srnic_link_up 1\n")), (1, 6.0, Err("gone".to_owned())), (0, 6.5, Ok(""))]
        );
    }

    #[test]
    fn what_is_no_recording_is_refused_by_line() {
        let error = |text: &str| Recording::parse(text).expect_err("refused").to_string();
        assert_eq!(error("{\"time\":1}\n"), "line 1 is no look that srnic stat recorded");
        let good = "{\"time\":1,\"address\":\"/a\",\"metrics\":\"\"}\n";
        assert_eq!(error(&format!("{good}[]\n")), "line 2 is no look that srnic stat recorded");
        assert_eq!(error(""), "nothing is recorded in it");
    }
}
