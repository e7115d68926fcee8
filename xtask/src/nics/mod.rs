//! `cargo xtask test --nics`: our programs on `pci:` devices, between two guests whose NICs QEMU
//! has and DPDK drives.
//!
//! The guests are as those of `--interop`: Debian's stock kernel in software emulation. A cable for
//! each NIC joins them; nothing of it is seen outside, so it takes no root.

mod checks;
mod image;
mod lab;
mod models;
mod monitor;
mod table;

use std::fs;

use crate::error::{Error, Result};
use crate::guest::{cannot_run, packages};
use crate::interrupt;
use crate::repo::{self, CHECKED};
use crate::setup::{self, INTEROP};
use crate::tools::Tools;
use checks::{At, CHECKS, Check, ETHERNET, Nic};
use lab::{Lab, Parts};
use models::{Handover, MODELS, Model};
use table::{Outcome, Row, Table};

/// All NICs whose row contains `part`, or one line that says why there are none.
pub fn run(part: &str) -> Result<()> {
    setup::implied(INTEROP)?;
    if let Some(reason) = cannot_run(&["pkg-config"]) {
        println!("skipped: {reason}");
        return Ok(());
    }
    let Ok(files) = packages::unpack() else {
        println!("{}", packages::MISSING);
        return Ok(());
    };
    let place = repo::target_directory()?.join("nics");
    fs::create_dir_all(&place).map_err(|e| Error::io("create", &place, &e))?;
    let image = image::build(&place, &files, &Tools::build(CHECKED)?.program())?;
    let available = models::available()?;
    let (models, missing): (Vec<Model>, Vec<Model>) =
        MODELS.into_iter().partition(|model| available.contains(&format!("name \"{}\"", model.device)));
    interrupt::catch()?;
    let mut table = Table::new(CHECKS.map(|check| check.name).to_vec());
    for handover in Handover::ALL {
        let parts = Parts { kernel: &files.kernel, image: &image, place: &place, models: &models, handover };
        play(&parts, part, &mut table)?;
    }
    for model in missing {
        println!("skipped: {}, which this QEMU has not", model.name);
    }
    table.finish()
}

/// All NICs that are handed over in one way. A failure takes its guests with it, and whatever it
/// left there: the next row gets others.
fn play(parts: &Parts<'_>, part: &str, table: &mut Table) -> Result<()> {
    let mut lab = None;
    for (number, model) in parts.models.iter().enumerate() {
        for (mtu, at) in [(ETHERNET, At::Ethernet), (model.mtu_max, At::Largest)] {
            let mut row = Row::new(model.name, parts.handover.driver(), mtu);
            if !row.name().contains(part) {
                continue;
            }
            let nic = Nic { number, mtu, memory: parts.handover.memory(at) };
            for check in CHECKS {
                let is_here = check.at == at || check.at == At::Each;
                row.note(if is_here {
                    outcome(&mut lab, parts, &row.name(), check, nic)?
                } else {
                    Outcome::Elsewhere
                });
            }
            table.push(row);
        }
    }
    Ok(())
}

/// Makes a check, in guests that are booted if there are none.
fn outcome(lab: &mut Option<Lab>, parts: &Parts<'_>, row: &str, check: Check, nic: Nic) -> Result<Outcome> {
    interrupt::check()?;
    println!("\n==> {row}: {}", check.name);
    let mut made = || {
        let mut used = lab.take().map_or_else(|| Lab::boot(parts), Ok)?;
        (check.run)(nic, &mut used)?;
        *lab = Some(used);
        Ok(())
    };
    let made: Result<()> = made();
    Ok(made.map_or_else(
        |error| {
            eprintln!("{error}");
            Outcome::Failed
        },
        |()| Outcome::Ok,
    ))
}
