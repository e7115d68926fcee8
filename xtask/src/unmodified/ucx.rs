//! How `ucx_perftest` is called.

use std::process::Command;
use std::sync::OnceLock;

/// What keeps it from beginning as a job of MPI's. One that is built with MPI, as Debian 13's is,
/// does so when its input is no terminal; one that is not, as Debian 12's, does not know the
/// option.
pub fn alone() -> &'static [&'static str] {
    static HAS_MPI: OnceLock<bool> = OnceLock::new();
    let has_mpi = HAS_MPI.get_or_init(|| {
        let help = Command::new("ucx_perftest").arg("-h").output();
        help.is_ok_and(|help| has_mpi(&[help.stdout, help.stderr].concat()))
    });
    if *has_mpi { &["-P", "0"] } else { &[] }
}

fn has_mpi(help: &[u8]) -> bool {
    String::from_utf8_lossy(help).lines().any(|line| line.trim_start().starts_with("-P <0|1>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_found_where_there_is_one() {
        assert!(has_mpi(b"  -p <port>  TCP port\n     -P <0|1>       disable/enable MPI mode (1)\n"));
        assert!(!has_mpi(
            b"  Note: test can be also launched as an MPI application\n  -p <port>  TCP port\n"
        ));
    }
}
