//! Two ends that were given different dialects: programs that do not tell each other of it fail
//! soon, and their users are told why.

use std::fs;
use std::time::Duration;

use super::{Place, Rows};
use crate::error::{Error, Result};
use crate::listening;
use crate::process::{Process, free_port};

/// perftest gives up after half a second of silence; the rest is for a busy machine.
const LIMIT: Duration = Duration::from_secs(30);
/// What is behind the devices of the server and the client.
const PAIRS: [[&str; 2]; 2] = [["", "; dialect=plain"], ["; dialect=plain", ""]];
/// Who asks: the client, or both.
const PROGRAMS: [&str; 2] = ["ib_write_bw", "ib_send_lat"];
/// What each user is told.
const SAYS: [&str; 3] = ["the SRNIC dialect", "plain RoCEv2", "give both devices the same dialect"];

pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    for program in PROGRAMS {
        for behind in PAIRS {
            let end = if behind[0].is_empty() { "client" } else { "server" };
            let name = format!("{program} with dialect=plain at its {end} alone");
            rows.play(&name, &[program], |place| differ(place, program, behind))?;
        }
    }
    Ok(())
}

fn differ(place: &Place<'_>, program: &str, behind: [&str; 2]) -> Result<()> {
    let port = free_port()?;
    let side = |role: &str, behind: &str| {
        let mut command = place.command(program, &place.memif(role, "", behind));
        command.args(["-F", "-x", "0", "-p", &port.to_string()]);
        command
    };
    let mut server = Process::start("server", side("server", behind[0]), place.dir)?;
    listening::wait(&mut server, port, LIMIT)?;
    let mut client = side("client", behind[1]);
    client.arg("127.0.0.1");
    let mut client = Process::start("client", client, place.dir)?;
    for (end, process) in [("client", &mut client), ("server", &mut server)] {
        if process.end(LIMIT)?.success() {
            return Err(Error(format!("the {end} noticed nothing")));
        }
        let file = place.dir.join(format!("{end}.err"));
        let said = fs::read_to_string(&file).map_err(|e| Error::io("read", &file, &e))?;
        if let Some(missing) = SAYS.iter().find(|words| !said.contains(**words)) {
            return Err(Error(format!("the {end} does not say `{missing}`:\n{said}")));
        }
        let line = said.lines().find(|line| line.contains(SAYS[0])).unwrap_or_default();
        println!("{end}: {line}");
    }
    Ok(())
}
