//! What a device can do, and what its port is: `ibv_devinfo -v`.

use crate::error::Result;
use crate::{log, output, program};
use clap::{ArgMatches, Parser};
use core::net::Ipv6Addr;
use std::process::ExitCode;
use verbs_api::Device;

/// Opens a device and shows its limits, its port, its GIDs and its P_Keys
#[derive(Parser)]
#[command(version)]
pub struct Cli {
    /// The device, as in memif:/tmp/a.sock,role=server; `srnic help` lists the kinds
    #[arg(short, long)]
    device: String,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    match run(&program::args::<Cli>(matches).device) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.show();
            ExitCode::FAILURE
        }
    }
}

fn run(text: &str) -> Result<()> {
    log::start()?;
    let device = Device::open(text)?;
    let (attr, port) = (device.query(), device.query_port());
    let line = |name: &str, value: &dyn core::fmt::Display| output::line(format_args!("\t{name:<24}{value}"));
    output::line(format_args!("hca_id: {text}"))?;
    line("transport:", &"srnic (RoCEv2 and its SRNIC dialect)")?;
    line("version:", &attr.version)?;
    let [a, b, c, d, e, f, g, h] = attr.node_guid.to_be_bytes();
    line("node_guid:", &format!("{a:02x}{b:02x}:{c:02x}{d:02x}:{e:02x}{f:02x}:{g:02x}{h:02x}"))?;
    for (name, value) in [
        ("max_qp:", attr.max_qp),
        ("max_qp_wr:", attr.max_qp_wr),
        ("max_sge:", attr.max_sge),
        ("max_inline:", attr.max_inline),
        ("max_qp_rd_atom:", attr.max_qp_rd_atom),
        ("max_window:", attr.max_window.into()),
        ("max_cq:", attr.max_cq),
        ("max_cqe:", attr.max_cqe),
        ("max_mr:", attr.max_mr),
        ("max_srq:", attr.max_srq),
        ("max_srq_wr:", attr.max_srq_wr),
        ("max_ah:", attr.max_ah),
        ("max_pkeys:", attr.max_pkeys.into()),
        ("phys_port_cnt:", attr.phys_port_cnt.into()),
    ] {
        line(name, &value)?;
    }
    line("atomic_cap:", &if attr.atomic_for_host { "ATOMIC_GLOB" } else { "ATOMIC_HCA" })?;
    output::line("\tport:\t1")?;
    line("\tstate:", &if port.active { "PORT_ACTIVE" } else { "PORT_DOWN" })?;
    line("\tmax_mtu:", &port.max_mtu.bytes())?;
    line("\tmax_msg_sz:", &port.max_msg_sz)?;
    let [a, b, c, d, e, f] = port.mac;
    line("\tlink_layer:", &format!("Ethernet {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"))?;
    for index in 0..port.gid_tbl_len {
        if let Some(gid) = device.query_gid(index) {
            line(&format!("\tGID[{index}]:"), &Ipv6Addr::from(gid))?;
        }
    }
    for index in 0..port.pkey_tbl_len {
        if let Some(pkey) = device.query_pkey(index) {
            line(&format!("\tP_Key[{index}]:"), &format!("{pkey:#06x}"))?;
        }
    }
    Ok(())
}
