//! `cargo xtask bench fabric`: the paper's large-scale results in virtual time, by `srnic fabric`,
//! beside the paper's words. docs/fabric.md has the claims, which were fixed before the first run.

mod cnp;
mod figure_11;
mod figure_12;
mod incast;
mod rtt_fairness;
mod spraying;

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::chart;
use super::claim::{self, Claim};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::machine::Machine;
use crate::repo::{self, RELEASE};
use crate::scratch::Scratch;
use crate::tools::Tools;

/// What to reproduce, and where the results go.
#[derive(Args)]
pub struct Options {
    /// What to reproduce
    #[arg(long, value_enum)]
    figure: Figure,
    /// Fewer hosts and less time: a minute in all
    #[arg(long)]
    quick: bool,
    /// Writes the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws the figures into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Takes the program from this directory instead of building it
    #[arg(long, value_name = "DIRECTORY")]
    tools: Option<PathBuf>,
}

/// What can be reproduced.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Figure {
    /// Goodput against loss
    #[value(name = "11")]
    Eleven,
    /// Flow completion times and slowdown of 16 to 4,096 hosts
    #[value(name = "12")]
    Twelve,
    /// Sixty senders to one host, over other traffic
    Incast,
    /// A near and a far sender to one host
    RttFairness,
    /// Receivers that notify, and senders that cut, once in a while or at each packet
    Cnp,
    /// Each packet takes a way of its own, beside each flow
    Spraying,
}

/// `srnic fabric`, to be run.
struct Fabric {
    tools: Tools,
    scratch: Scratch,
    quick: bool,
}

/// What came of a figure.
struct Outcome {
    rows: Vec<Value>,
    claims: Vec<Claim>,
    /// What is published.
    words: &'static str,
    picture: Picture,
}

/// What is drawn: values over places.
struct Picture {
    title: &'static str,
    axes: [&'static str; 2],
    places: Vec<String>,
    lines: Vec<(&'static str, Vec<f64>)>,
}

/// Builds the program, runs it, and tells.
pub fn run(options: &Options) -> Result<()> {
    let tools = match &options.tools {
        Some(directory) => Tools::in_directory(directory),
        None => Tools::build(RELEASE)?,
    };
    interrupt::catch()?;
    let fabric = Fabric { tools, scratch: Scratch::new()?, quick: options.quick };
    let outcome = match options.figure {
        Figure::Eleven => figure_11::run(&fabric)?,
        Figure::Twelve => figure_12::run(&fabric)?,
        Figure::Incast => incast::run(&fabric)?,
        Figure::RttFairness => rtt_fairness::run(&fabric)?,
        Figure::Cnp => cnp::run(&fabric)?,
        Figure::Spraying => spraying::run(&fabric)?,
    };
    println!("\n{}\n\n{}", outcome.words, claim::table(&outcome.claims));
    if let Some(path) = &options.json {
        let claims: Vec<_> = outcome.claims.iter().map(Claim::to_json).collect();
        let all = json!({ "rows": outcome.rows, "claims": claims, "machine": Machine::here().to_json() });
        fs::write(path, format!("{all:#}\n")).map_err(|e| Error::io("write", path, &e))?;
    }
    if let Some(path) = &options.svg {
        outcome.picture.draw(path)?;
    }
    Ok(())
}

impl Fabric {
    /// The rows of `srnic fabric` with these arguments; it prints its own table.
    fn rows(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let file = self.scratch.path().join("rows.json");
        let mut command = self.tools.command("fabric");
        command.args(arguments).arg("--json").arg(&file).current_dir(repo::root());
        println!("\nsrnic fabric {}", arguments.join(" "));
        repo::run(command)?;
        let text = fs::read_to_string(&file).map_err(|e| Error::io("read", &file, &e))?;
        let all: Value =
            serde_json::from_str(&text).map_err(|error| Error(format!("{}: {error}", file.display())))?;
        match &all["rows"] {
            Value::Array(rows) => Ok(rows.clone()),
            _ => Err(Error(format!("{}: it has no rows", file.display()))),
        }
    }

    /// The row of `srnic fabric run` and the like.
    fn row(&self, arguments: &[&str]) -> Result<Value> {
        self.rows(arguments)?.pop().ok_or_else(|| Error::new("srnic fabric gave no row"))
    }
}

impl Picture {
    fn draw(&self, path: &std::path::Path) -> Result<()> {
        let lines: Vec<_> = self
            .lines
            .iter()
            .map(|(name, values)| chart::Line {
                name,
                points: (0_u8..).map(f64::from).zip(values.iter().copied()).collect(),
            })
            .collect();
        chart::lines(path, self.title, self.axes, &self.places, &lines)
    }
}

/// A number of a row, by its path; NaN if it is not there, which keeps no claim.
fn number(row: &Value, path: &str) -> f64 {
    row.pointer(&format!("/{path}")).and_then(Value::as_f64).unwrap_or(f64::NAN)
}
