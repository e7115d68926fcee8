//! Datagrams there and back, with statistics.

use crate::error::{self, Error};
use crate::link::wait_for_link;
use crate::notice::Notice;
use crate::ping::{HEADER, Pinger};
use crate::pump::Drive;
use crate::{interrupt, output, program};
use clap::{ArgMatches, Parser};
use core::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use verbs_api::{Device, DeviceSpec, Error as VerbsError, Role};

/// Sends datagrams (UD) to another ping, which answers each; without a host, only answers
///
/// Exit status: 0 if a datagram was answered, 1 if none was, 2 if it could not be tried.
#[derive(Parser)]
#[command(version)]
pub struct Cli {
    /// The device, as in memif:/tmp/a.sock; `srnic help` lists the kinds
    #[arg(short, long)]
    device: String,
    /// The peer's address
    host: Option<IpAddr>,
    /// Datagrams to send; without it, until Ctrl-C
    #[arg(short, long)]
    count: Option<u64>,
    /// Seconds between two datagrams; 0 sends the next as soon as one is answered, but after 10 ms
    /// anyway
    #[arg(short, long, default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Bytes of a datagram, 16 up to what a packet carries
    #[arg(short, long, default_value_t = 56)]
    size: usize,
    /// Seconds to wait for the last answers
    #[arg(short = 'W', long, default_value = "1", value_parser = seconds)]
    timeout: Duration,
    /// Never gives the processor away: the least time to an answer, and a core that is always busy.
    /// Without it, who has heard nothing for 200 us looks again every millisecond at least
    #[arg(long)]
    spin: bool,
    /// Only the summary
    #[arg(short, long)]
    quiet: bool,
}

/// Requests follow each other faster than this only if the one before is answered.
const FLOOD: Duration = Duration::from_millis(10);

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or("a number of seconds, 0 or more")
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::verdict_main(|| run(&program::args(matches)))
}

fn run(cli: &Cli) -> error::Result<bool> {
    let spec: DeviceSpec = cli.device.parse().map_err(VerbsError::from)?;
    let spec = spec.or_role(if cli.host.is_some() { Role::Client } else { Role::Server });
    let device = Device::open_spec(&spec)?;
    let mut pinger = Pinger::new(&device)?;
    let Some(host) = cli.host else {
        output::line(format_args!("answering at {}", device.ip()))?;
        let mut notice = Notice::new();
        while interrupt::check().is_ok() {
            Drive::check(&device)?;
            pinger.step()?;
            wait(cli, &mut pinger);
            if pinger.statistics().received == 0 && !device.link_up() {
                notice.look("nobody has asked", || Drive::link_down(&device));
            }
        }
        let unreachable = pinger.statistics().unreachable;
        if unreachable > 0 {
            output::line(format_args!("{unreachable} requests not answered: their hosts cannot be reached"))?;
        }
        return Ok(true);
    };
    wait_for_link(&device, &spec, || Ok(()))?;
    output::line(format_args!("PING {host} from {}: {} bytes", device.ip(), cli.size.max(HEADER)))?;
    let ended = ping(cli, host, &device, &mut pinger);
    let shown = output::line(format_args!("--- {host} ---\n{}", pinger.statistics()));
    match ended {
        Ok(()) | Err(Error::Interrupted) => shown.map(|()| pinger.statistics().received > 0),
        Err(error) => Err(error),
    }
}

fn ping(cli: &Cli, host: IpAddr, device: &Device, pinger: &mut Pinger) -> error::Result<()> {
    let (mut number, mut notice) = (0, Notice::new());
    while cli.count.is_none_or(|count| number < count) {
        pinger.ask(host, number, cli.size)?;
        number += 1;
        let last = cli.count == Some(number);
        let asked = Instant::now();
        loop {
            interrupt::check()?;
            Drive::check(device)?;
            let passed = asked.elapsed();
            let over = match last {
                true => passed >= cli.timeout || pinger.unanswered() == 0,
                false => passed >= cli.interval && (passed >= FLOOD || !pinger.awaits(number - 1)),
            };
            if over {
                break;
            }
            let Some(answer) = pinger.step()? else {
                let nobody_yet = pinger.statistics().received == 0;
                // Whose answer is under way is not slept for.
                if pinger.unanswered() == 0 || nobody_yet && passed > FLOOD {
                    wait(cli, pinger);
                }
                if nobody_yet {
                    notice.look(&format!("{host} has not answered"), || Drive::link_down(device));
                }
                continue;
            };
            if !cli.quiet {
                let (from, number, micros) = (answer.from, answer.number, answer.time.as_secs_f64() * 1e6);
                let again = if answer.duplicate { " (again)" } else { "" };
                output::line(format_args!("from {from}: number {number}, {micros:.1} us{again}"))?;
            }
        }
    }
    Ok(())
}

fn wait(cli: &Cli, pinger: &mut Pinger) {
    if !cli.spin {
        pinger.wait();
    }
}
