//! Stock rping on our side, too: over the drop-in libibverbs, whose device is the tap.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::guest::begin_listening;
use super::namespace::{self, ENGINE_IP, GUEST_IP, Namespace, TAP};
use crate::dropin;
use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::guest::packages::Files;
use crate::repo::CHECKED;

/// Both ends of it: what is pinged, and the comparison of what comes back.
const PINGS: &str = "-C 50 -S 6000 -V";
/// What is lost on our side.
const FAULTS: &str = "fault:loss=1%,seed=7:";
/// Where Debian has its libraries.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The guest's end is the server.
    guest_serves: bool,
    is_lossy: bool,
    /// What is behind our device: nothing, as the ends agree, or the dialect.
    behind: &'static str,
}

/// What is there to play them.
pub struct Stage<'a> {
    pub namespace: &'a Namespace,
    /// Debian's packages, with the stock rping.
    pub files: &'a Files,
}

impl Case {
    pub fn all() -> impl Iterator<Item = Self> {
        [true, false].into_iter().flat_map(|guest_serves| {
            let case = move |is_lossy, behind| Self { guest_serves, is_lossy, behind };
            [case(false, ""), case(true, ""), case(false, "; dialect=plain")]
        })
    }

    /// What the table calls it.
    pub fn name(&self) -> String {
        let role = if self.guest_serves { "server" } else { "client" };
        let network = if self.is_lossy { ", faults" } else { "" };
        format!("rping {role}, unmodified rping beside it{}{network}", self.behind)
    }
}

/// Both ends of a case, to the successful end of the client, and of the server if that is the
/// guest's: ours would go on, as it may fail when it ends by itself (docs/unmodified.md).
pub fn play(case: &Case, stage: &Stage<'_>, guest: &mut Guest) -> Result<()> {
    let library = dropin::build(CHECKED)?;
    let faults = if case.is_lossy { FAULTS } else { "" };
    let device = format!("{faults}af_packet:{TAP},ip={ENGINE_IP}{}", case.behind);
    let ours = |arguments: &str| {
        let mut command = rping(stage, &library, &device);
        command.args(arguments.split(' '));
        namespace::spawn(&mut command)
    };
    if case.guest_serves {
        begin_listening(guest, &format!("rping -s -a {GUEST_IP} {PINGS}"))?;
        let said = ours(&format!("-c -a {GUEST_IP} {PINGS}"))?.end();
        return match (guest.end(), said) {
            (Ok(_), Ok(_)) => Ok(()),
            (Err(theirs), Err(ours)) => Err(Error(format!("{theirs}\n{ours}"))),
            (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
        };
    }
    let _server = ours(&format!("-s -P -a {ENGINE_IP} {PINGS}"))?;
    // A stock client tries once, and nobody tells when ours listens.
    guest.begin(&format!(
        "n=0; until rping -c -a {ENGINE_IP} {PINGS}; do n=$((n+1)); test $n -lt 10 || break; sleep 1; done; test $n -lt 10"
    ))?;
    guest.end().map(drop)
}

/// The stock program in the namespace, over our library.
fn rping(stage: &Stage<'_>, library: &Path, device: &str) -> Command {
    let root: &PathBuf = &stage.files.root;
    let mut command = stage.namespace.command(Path::new("env"));
    let libraries = root.join(LIBRARIES);
    command.arg(format!("LD_LIBRARY_PATH={}:{}", library.display(), libraries.display()));
    command.arg(format!("LD_PRELOAD={}", library.join(dropin::PRELOAD).display()));
    command.arg(format!("SRNIC_DEVICE={device}")).arg(root.join("usr/bin/rping"));
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_case_has_a_name_of_its_own() {
        let names: BTreeSet<String> = Case::all().map(|case| case.name()).collect();
        assert_eq!(names.len(), Case::all().count());
    }
}
