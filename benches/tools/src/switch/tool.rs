//! An Ethernet switch over memif sockets and interfaces, without root: more than two hosts on one
//! machine.

use crate::descriptors::{self, Of};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::output;
use crate::program;
use crate::switch::leases::Network;
use crate::switch::pool::Pool;
use crate::switch::{PortSpec, Row, Switch, table};
use clap::{ArgMatches, Parser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Switches Ethernet frames between its ports until Ctrl-C, then prints what it counted
///
/// Each port is a device: memif:PATH makes a socket that one host joins as client,
/// af_packet:INTERFACE is an interface of the kernel's. Before it may stand
/// `queue:frames=256,mark=65,rate=10G:`, a queue of so many frames that marks packets CE above a
/// threshold and lets out so many bits a second, and `fault:loss=1%:`.
///
/// With --pool SOCKET there is, besides, a port for each process that opens the device pool:SOCKET,
/// as tools do by -d (but the raw ones), and other programs by `srnic run -d pool:SOCKET`. It has
/// the port and an address until it closes the device or dies.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// The ports, as in memif:/tmp/1.sock or
    /// queue:frames=256,mark=65,rate=10G:fault:loss=1%:memif:/tmp/2.sock
    #[arg(value_name = "PORT")]
    ports: Vec<PortSpec>,
    /// A socket where processes ask for a port and an address
    #[arg(long, value_name = "SOCKET")]
    pool: Option<PathBuf>,
    /// The network of the pool's addresses
    #[arg(long, value_name = "NETWORK", requires = "pool", default_value = "10.77.0.0/16")]
    net: Network,
    /// Writes the counters to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::tool_main(|| run(&program::args(matches)))
}

fn run(cli: &Cli) -> Result<()> {
    output::check_file(cli.json.as_deref())?;
    if cli.pool.is_none() && cli.ports.len() < 2 {
        let said = "a switch has two ports or more, or a --pool, as in `srnic switch memif:/tmp/1.sock memif:/tmp/2.sock` or \
             `srnic switch --pool /tmp/pool.sock`";
        return Err(Error::Options(said.to_owned()));
    }
    descriptors::allow(cli.ports.len(), Of::Ports)?;
    let mut switch = Switch::default();
    for spec in &cli.ports {
        switch.attach(spec.open()?, spec.queue);
    }
    let pool = cli.pool.as_deref().map(|socket| Pool::start(socket, cli.net, cli.ports.len())).transpose()?;
    // It answers for as long as the switch runs.
    let pool = pool.map(|(pool, arriving)| {
        switch.attach_later(arriving);
        pool
    });
    // Hosts may come before; who starts them wants to know that they can.
    eprintln!("switching {} ports{}", cli.ports.len(), if pool.is_some() { " and a pool" } else { "" });
    switch.run(|| interrupt::check().is_err(), |why| program::say(why));
    drop(pool);
    let fixed = cli.ports.iter().map(|spec| spec.text.as_str());
    let rows: Vec<Row> = switch
        .lanes()
        .zip(fixed.chain(switch.arrived()))
        .map(|((link_down, stats), port)| Row { port: port.to_owned(), link_down, stats })
        .collect();
    let shown = output::lines(table(&rows));
    cli.json.as_deref().map_or(Ok(()), |path| write(path, &rows)).and(shown)
}

fn write(path: &Path, rows: &[Row]) -> Result<()> {
    let ports: Vec<_> = rows.iter().map(Row::json).collect();
    std::fs::write(path, format!("{:#}\n", serde_json::json!({ "ports": ports })))
        .map_err(Error::file("write", path))
}
