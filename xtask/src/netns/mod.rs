//! Network namespaces that go away with their owner.

mod leftovers;

use std::ffi::OsStr;
use std::process::Command;

use crate::error::Result;
use crate::repo::output;

/// A network namespace, with its loopback interface up. It takes root and iproute2.
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes it, once those of killed runs are gone.
    pub fn new() -> Result<Self> {
        leftovers::clean_up()?;
        let name = leftovers::next_name()?;
        output(Command::new("ip").args(["netns", "add", &name]))?;
        let namespace = Self { name };
        namespace.run("ip link set lo up")?;
        Ok(namespace)
    }

    /// How `ip` calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs here.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs a line here, whose words have blanks between, to its end; what it says.
    pub fn run(&self, line: &str) -> Result<String> {
        let mut words = line.split(' ');
        output(self.command(words.next().unwrap_or_default()).args(words))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if let Err(error) = output(Command::new("ip").args(["netns", "delete", &self.name])) {
            eprintln!("{error}");
        }
    }
}
