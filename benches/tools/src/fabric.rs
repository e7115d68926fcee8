//! `srnic fabric`: networks of thousands of hosts in virtual time, each with the engine that runs
//! on the wire.

use crate::congestion::Congestion;
use crate::error::{Error, Result};
use crate::output;
use crate::perf::cli::Recovery;
use crate::{interrupt, program};
use clap::{ArgMatches, Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use srnic_fabric::clock::Ps;
use srnic_fabric::fabric::{Config, Fabric};
use srnic_fabric::host::HostConfig;
use srnic_fabric::summary::Summary;
use srnic_fabric::switch::SwitchConfig;
use srnic_fabric::topology::FatTree;
use srnic_fabric::workload::{Poisson, Sizes};
use std::path::PathBuf;
use std::process::ExitCode;

/// Simulates networks of thousands of hosts, each with the engine that runs on the wire
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand, Debug)]
enum Part {
    /// Runs one network, and says how long its flows took
    ///
    /// Hosts are in a fat tree, as in SRNIC's Figure 12: 100 Gb/s to each, 400 Gb/s between
    /// switches, 1 us a link. Each sends flows of Cache_Follower's sizes to hosts at random.
    /// docs/fabric.md has every assumption. Ctrl-C shows what there is.
    Run(Run),
}

#[derive(Args, Debug)]
struct Run {
    /// Hosts: 16, 64, 256, 1024 or 4096
    #[arg(long, default_value_t = 64, value_parser = hosts)]
    hosts: u32,
    /// Part of a host's link that its flows take
    #[arg(long, default_value_t = 0.7, value_parser = load)]
    load: f64,
    /// Microseconds of virtual time in which flows begin
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    time: u64,
    /// Microseconds at the beginning whose flows are not counted
    #[arg(long, default_value_t = 100)]
    warm_up: u64,
    /// Microseconds after the last flow began in which flows may still end
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    drain: u64,
    /// Everything random comes from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Congestion control
    #[arg(long, default_value = "dctcp")]
    cc: Congestion,
    /// How losses are repaired
    #[arg(long, default_value = "selective-repeat")]
    recovery: Recovery,
    /// Packets in the network at most, a queue pair
    #[arg(long, default_value_t = 160, value_parser = clap::value_parser!(u16).range(1..=4096))]
    window: u16,
    /// Bytes that the queues of a switch share
    #[arg(long, default_value_t = SwitchConfig::DEFAULT.pool, value_parser = clap::value_parser!(u64).range(10_000..=1 << 30))]
    buffer: u64,
    /// Bytes that wait before a 100 Gb/s link from which on packets are marked; four times as many
    /// before a 400 Gb/s link
    #[arg(long, default_value_t = SwitchConfig::DEFAULT.mark, value_parser = clap::value_parser!(u64).range(..=1 << 30))]
    mark: u64,
    /// Writes the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn hosts(text: &str) -> std::result::Result<u32, &'static str> {
    let hosts = text.parse().ok().filter(|hosts| FatTree::of_hosts(*hosts).is_some());
    hosts.ok_or("it must be 16, 64, 256, 1024 or 4096")
}

fn load(text: &str) -> std::result::Result<f64, &'static str> {
    let load = text.parse().ok().filter(|load| *load > 0.0 && *load <= 1.0);
    load.ok_or("it must be above 0 and at most 1")
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::tool_main(|| match program::args::<Cli>(matches).part {
        Part::Run(run) => run.run(),
    })
}

/// How often a run says where it stands, and looks for Ctrl-C, in virtual time.
const STEP: Ps = Ps::from_ns(5_000);

impl Run {
    fn config(&self) -> Result<Config> {
        let tree = FatTree::of_hosts(self.hosts).ok_or_else(|| Error::Options("--hosts".to_owned()))?;
        Ok(Config {
            tree,
            host: HostConfig {
                window: self.window,
                congestion: self.cc.into(),
                recovery: self.recovery.into(),
                ..HostConfig::default()
            },
            switch: SwitchConfig { pool: self.buffer, mark: self.mark, ..SwitchConfig::DEFAULT },
            flow_max: Sizes::CACHE_FOLLOWER.largest(),
            seed: self.seed,
        })
    }

    fn run(&self) -> Result<()> {
        output::check_file(self.json.as_deref())?;
        let config = self.config()?;
        let refused = |error: srnic_fabric::host::HostError| Error::Options(error.to_string());
        let end_of_arrivals = Ps::from_ns(self.time * 1000);
        let mut fabric = Fabric::new(config, |host| {
            let (hosts, rate) = (config.tree.hosts(), config.tree.host_ps_per_byte);
            let flows = Poisson::new(self.seed, (host, hosts), Sizes::CACHE_FOLLOWER, self.load, rate);
            Box::new(flows.take_while(move |flow| flow.at < end_of_arrivals))
        })
        .map_err(refused)?;
        let bar = progress(self.time);
        let last = end_of_arrivals + Ps::from_ns(self.drain * 1000);
        let mut until = Ps(0);
        let mut interrupted = false;
        while until < last {
            until = (until + STEP).min(last);
            let goes_on = fabric.run(until).map_err(refused)?;
            bar.set_position((until.0 / 1_000_000).min(self.time));
            bar.set_message(format!("{} flows, {} under way", fabric.flows.len(), fabric.unfinished()));
            interrupted = interrupt::check().is_err();
            if !goes_on || interrupted {
                break;
            }
        }
        bar.finish_and_clear();
        self.tell(&fabric)?;
        if interrupted { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn tell(&self, fabric: &Fabric) -> Result<()> {
        let summary = Summary::of(fabric, Ps::from_ns(self.warm_up * 1000));
        output::line(table(self.hosts, &summary, fabric))?;
        let Some(path) = &self.json else { return Ok(()) };
        let row = self.row(&summary, fabric);
        std::fs::write(path, format!("{:#}\n", json!({ "rows": [row] }))).map_err(Error::file("write", path))
    }

    fn row(&self, summary: &Summary, fabric: &Fabric) -> Value {
        let switches = fabric.switch_stats();
        json!({
            "scheme": "SRNIC",
            "hosts": self.hosts,
            "load": self.load,
            "time_us": self.time,
            "seed": self.seed,
            "flows": summary.flows,
            "unfinished": summary.unfinished,
            "failed": summary.failed,
            "avg_fct_us": summary.avg_fct_us,
            "p99_fct_us": summary.p99_fct_us,
            "avg_slowdown": summary.avg_slowdown,
            "p99_slowdown": summary.p99_slowdown,
            "goodput": summary.goodput,
            "dropped": switches.dropped,
            "marked": switches.marked,
            "passed": switches.passed,
            "hash": format!("{:016x}", fabric.hash()),
        })
    }
}

/// The progress of a run: virtual microseconds of those in which flows begin.
fn progress(micros: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} us, {eta} left; {msg}");
    ProgressBar::new(micros).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn table(hosts: u32, summary: &Summary, fabric: &Fabric) -> String {
    let Summary { flows, unfinished, failed, avg_fct_us, p99_fct_us, avg_slowdown, p99_slowdown, goodput } =
        summary;
    let switches = fabric.switch_stats();
    format!(
        "scheme  hosts   flows  avg FCT us  p99 FCT us  avg slowdown  p99 slowdown  goodput  dropped   marked  \
         unfinished  failed\n\
         SRNIC   {hosts:5} {flows:7} {avg_fct_us:11.1} {p99_fct_us:11.1} {avg_slowdown:13.2} \
         {p99_slowdown:13.2} {goodput:8.3} {:8} {:8} {unfinished:11} {failed:7}\nhash {:016x}",
        switches.dropped,
        switches.marked,
        fabric.hash(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> std::result::Result<Cli, String> {
        Cli::try_parse_from(line.split(' ')).map_err(|error| error.to_string())
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        assert!(parse("fabric run --hosts 100").expect_err("refused").contains("16, 64, 256, 1024 or 4096"));
        assert!(parse("fabric run --load 0").expect_err("refused").contains("above 0 and at most 1"));
        assert!(parse("fabric run --window 0").is_err());
        assert!(parse("fabric run --hosts 4096 --load 1 --cc swift --recovery go-back-n").is_ok());
    }

    /// The table and the JSON say the same.
    #[test]
    fn a_small_network_is_told_of() {
        let Ok(Cli { part: Part::Run(run) }) = parse("fabric run --hosts 16 --time 100 --warm-up 10") else {
            panic!("a command line")
        };
        let config = run.config().expect("a configuration");
        let flow = srnic_fabric::workload::Flow { at: Ps::from_ns(20_000), to: 1, bytes: 1000 };
        let mut fabric =
            Fabric::new(config, |host| Box::new((host == 0).then_some(flow).into_iter())).expect("hosts");
        fabric.run(Ps::from_ns(1_000_000)).expect("runs");
        let summary = Summary::of(&fabric, Ps::from_ns(10_000));
        let row = run.row(&summary, &fabric);
        assert_eq!((&row["flows"], &row["unfinished"]), (&json!(1), &json!(0)));
        assert!(
            table(16, &summary, &fabric).contains(&format!("hash {}", row["hash"].as_str().expect("text")))
        );
        assert!((summary.avg_slowdown - 1.0).abs() < 0.01, "{summary:?}");
    }
}
