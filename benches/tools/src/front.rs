//! The command line of `srnic`: which subcommand is called, and what `srnic help` lists.

#[cfg(test)]
mod tests;

use crate::install::{self, Install};
use crate::program;
use crate::subcommands::{ALL, Group, Subcommand};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, FromArgMatches as _, Subcommand as _};
use std::error::Error as _;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::num::ParseIntError;
use std::process::ExitCode;

/// `{after-help}` is the list of subcommands, which clap cannot group.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}";

/// The devices that people begin with.
const DEVICES: &str = "
Devices, as -d takes them (docs/ports.md has all of them, and their keys):
  memif:/tmp/a.sock             joins two processes of this machine; the server makes the socket
  af_packet:eth1,ip=192.0.2.1   an interface of the kernel's, to reach other machines; takes root
  fault:loss=1%:DEVICE          one of these, with 1 % of the packets lost
";

const DEVICE_TIP: &str =
    "`-d memif:/tmp/a.sock` joins two processes of this machine; `srnic help` lists other devices";
const ADDRESS_TIP: &str =
    "this is the path that a device was opened with, as in `-d memif:/tmp/a.sock,stat=/tmp/a.stat`";
const NUMBER_TIP: &str = "this takes a whole number in digits, without a unit";

/// Runs what the command line `args` asks for, the program's own name included.
#[must_use]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let started = args.first().and_then(|path| program::file_name(path)).unwrap_or_default();
    if let Some(subcommand) = Subcommand::of_link(started) {
        let matches = parsed(of_link(subcommand), &args);
        return run(subcommand, subcommand.link(), &matches);
    }
    let matches = parsed(command(), &args);
    if let Some((name, options)) = matches.subcommand()
        && let Some(subcommand) = Subcommand::of_name(name)
    {
        return run(subcommand, format!("srnic {name}"), options);
    }
    Install::from_arg_matches(&matches).map_or_else(|error| error.exit(), |task| install::main(&task))
}

/// The options of a command line. One that is wrong ends the program: it is told why, and what to
/// do.
fn parsed(command: Command, args: &[OsString]) -> ArgMatches {
    command.try_get_matches_from(args).unwrap_or_else(|error| with_tip(error).exit())
}

/// The error, with what to do where clap cannot know it.
fn with_tip(mut error: clap::Error) -> clap::Error {
    if let Some(tip) = tip(&error) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn tip(error: &clap::Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::MissingRequiredArgument => {
            let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
                return None;
            };
            let lacks = |name: &str| missing.iter().any(|argument| argument.contains(name));
            let tips = [("<DEVICE", DEVICE_TIP), ("<ADDRESS>", ADDRESS_TIP)];
            tips.into_iter().find(|(name, _)| lacks(name)).map(|(_, tip)| tip)
        }
        ErrorKind::ValueValidation => error.source()?.is::<ParseIntError>().then_some(NUMBER_TIP),
        _ => None,
    }
}

fn run(subcommand: &Subcommand, name: String, matches: &ArgMatches) -> ExitCode {
    program::call(name);
    (subcommand.run)(matches)
}

/// The command line of a subcommand that is called by its link.
fn of_link(subcommand: &Subcommand) -> Command {
    subcommand.with_example(&subcommand.link()).name(subcommand.link())
}

/// The whole command line.
#[must_use]
pub fn command() -> Command {
    let tools = ALL.iter().map(|subcommand| {
        subcommand.with_example(&format!("srnic {}", subcommand.name)).name(subcommand.name)
    });
    Install::augment_subcommands(Command::new("srnic"))
        .about("RDMA on any Ethernet, in software: measures it, looks into it, runs what it needs")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .help_template(TEMPLATE)
        .after_help(list())
        .subcommands(tools)
}

/// The subcommands by group, each with what it does.
fn list() -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let _ = writeln!(text, "{}:", group.title());
        for subcommand in ALL.iter().filter(|subcommand| subcommand.group == group) {
            let _ = writeln!(text, "  {:<11} {}", subcommand.name, summary(&(subcommand.command)()));
        }
        text.push('\n');
    }
    text.push_str(
        "Install:\n  link        Makes a link for each of these: srnic_write_bw is srnic write-bw\n",
    );
    text.push_str(DEVICES);
    text.push_str("\nsrnic help SUBCOMMAND explains one of them.");
    text
}

/// What a command does, in a line: how it is to be called stands behind a colon or semicolon.
fn summary(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    about.split([':', ';']).next().unwrap_or_default().to_owned()
}
