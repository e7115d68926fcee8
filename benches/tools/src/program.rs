//! What this process is called, and what it says on standard error under that name.

use clap::{ArgMatches, FromArgMatches};
use core::fmt;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;

static NAME: Name = Name(OnceLock::new());

/// A name that is taken once.
struct Name(OnceLock<String>);

impl Name {
    fn get(&self) -> &str {
        self.0.get_or_init(|| {
            let started = std::env::args_os().next().unwrap_or_default();
            file_name(&started).unwrap_or("srnic").to_owned()
        })
    }

    fn call(&self, name: String) {
        self.0.get_or_init(|| name);
    }
}

/// The name, such as `srnic write-bw`: the one that was [given](call), or else the file that was
/// started.
pub fn name() -> &'static str {
    NAME.get()
}

/// Gives the process a name, unless it has one already.
pub fn call(name: String) {
    NAME.call(name);
}

/// The last part of a path.
#[must_use]
pub fn file_name(path: &OsStr) -> Option<&str> {
    Path::new(path).file_name()?.to_str()
}

/// The options of a parsed command line. Ends the process if they contradict each other.
#[must_use]
pub fn args<T: FromArgMatches>(matches: &ArgMatches) -> T {
    T::from_arg_matches(matches).unwrap_or_else(|error| error.exit())
}

/// Says something on standard error, behind the name.
pub fn say(text: impl fmt::Display) {
    eprintln!("{}: {text}", name());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_stays() {
        let name = Name(OnceLock::new());
        name.call("srnic write-bw".to_owned());
        name.call("another".to_owned());
        assert_eq!(name.get(), "srnic write-bw");
    }

    #[test]
    fn a_file_name_is_the_last_part_of_a_path() {
        let cases = [("/usr/bin/srnic", Some("srnic")), ("srnic", Some("srnic")), ("", None), ("/", None)];
        for (path, name) in cases {
            assert_eq!(file_name(OsStr::new(path)), name, "{path}");
        }
    }
}
