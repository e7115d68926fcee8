//! `cargo xtask test --interop`: our programs against Linux soft-RoCE, which none of us wrote.
//!
//! QEMU boots Debian's stock kernel with `rdma_rxe` and the stock perftest and libibverbs tools,
//! from packages that are unpacked and not installed; a tap in a network namespace of its own joins
//! the guest with our `af_packet` port.

mod cases;
mod guest;
mod image;
mod namespace;
mod refusals;
mod unmodified;

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::guest::{Guest, cannot_run, packages};
use crate::interrupt;
use crate::repo::{self, RELEASE};
use crate::setup::{self, INTEROP};
use crate::steps::Steps;
use crate::tools::Tools;
use cases::Case;
use guest::Parts;
use namespace::Namespace;

/// All cases, or one line that says why there are none. Those are played whose name contains
/// `part`.
pub fn run(part: &str) -> Result<()> {
    setup::implied(INTEROP)?;
    if let Some(reason) = why_not() {
        println!("skipped: {reason}");
        return Ok(());
    }
    let Ok(files) = packages::unpack() else {
        println!("{}", packages::MISSING);
        return Ok(());
    };
    let place = repo::target_directory()?.join("interop");
    fs::create_dir_all(&place).map_err(|e| Error::io("create", &place, &e))?;
    let image = image::build(&place, &files)?;
    let program = Tools::build(RELEASE)?.program();
    interrupt::catch()?;
    let namespace = Namespace::new()?;
    let parts = Parts { namespace: &namespace, kernel: &files.kernel, image: &image, place: &place };
    let mut guest = None;
    let mut with_guest = |play: &dyn Fn(&mut Guest) -> Result<()>| {
        // A failure takes its guest with it, and whatever it left there: the next case gets
        // another.
        let mut used = guest.take().map_or_else(|| guest::boot(&parts), Ok)?;
        play(&mut used)?;
        guest = Some(used);
        Ok(())
    };
    let mut steps = Steps::default();
    for case in Case::all().filter(|case| case.name().contains(part)) {
        interrupt::check()?;
        steps.check(&case.name(), || with_guest(&|guest| play(&case, &namespace, guest, &program)));
    }
    for (name, refused) in refusals::ALL.into_iter().filter(|(name, _)| name.contains(part)) {
        interrupt::check()?;
        steps.check(name, || with_guest(&|guest| refused(&namespace, guest, &program)));
    }
    let stage = unmodified::Stage { namespace: &namespace, files: &files };
    for case in unmodified::Case::all().filter(|case| case.name().contains(part)) {
        interrupt::check()?;
        steps.check(&case.name(), || with_guest(&|guest| unmodified::play(&case, &stage, guest)));
    }
    steps.finish()
}

/// One case: a stock tool in the guest, ours beside it, both to their successful end.
fn play(case: &Case, namespace: &Namespace, guest: &mut Guest, program: &Path) -> Result<()> {
    let mut ours = case.ours(namespace.command(program));
    let (theirs, ours) = if case.guest_serves {
        if case.connects() {
            guest::begin_listening(guest, &case.theirs())?;
        } else {
            // Our client of a side channel tries again.
            guest.begin(&case.theirs())?;
        }
        let said = namespace::spawn(&mut ours)?.end();
        (guest.end(), said)
    } else {
        let mut child = namespace::spawn(&mut ours)?;
        // A stock client tries once.
        child.wait_for("waiting for a client")?;
        guest.begin(&case.theirs())?;
        (guest.end(), child.end())
    };
    match (theirs, ours) {
        (Ok(_), Ok(said)) => println!("ours: {said}"),
        (Err(theirs), Err(ours)) => return Err(Error(format!("{theirs}\n{ours}"))),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => return Err(error),
    }
    Ok(())
}

/// Why no guest can run here.
fn why_not() -> Option<String> {
    if !setup::is_root() {
        return Some("the soft-RoCE peer takes root, for a network namespace with a tap".to_owned());
    }
    cannot_run(&["ip"])
}
