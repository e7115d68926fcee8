//! `srnic`, and every name that links give it.

use std::process::ExitCode;

fn main() -> ExitCode {
    srnic_tools::front::main(std::env::args_os())
}
