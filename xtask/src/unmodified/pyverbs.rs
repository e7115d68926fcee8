//! rdma-core's own tests in Python, pyverbs, over the library: which may be skipped, or fail, and
//! why, is in a list that must be true.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Place, Rows};
use crate::error::{Error, Result};
use crate::process::Process;
use crate::repo;

/// Debian's, for which pyverbs is built.
const PYTHON: &str = "/usr/bin/python3";
/// What the tests come in, and the version of theirs that the list is of.
const SOURCE: &str = "rdma-core";
const VERSION: &str = "44";
const LIST: &str = "xtask/src/unmodified/pyverbs.txt";
/// A directory that has `tests`, in place of Debian's.
const VARIABLE: &str = "SRNIC_PYVERBS_TESTS";
/// Windows are tested in `mr`; shared receive queues in none of them.
const MODULES: [&str; 11] =
    ["device", "pd", "mr", "cq", "cqex", "cq_events", "qp", "qpex", "addr", "atomic", "rdmacm"];
/// Longest of a module.
const LIMIT: Duration = Duration::from_secs(300);

/// How a test ended that did not simply pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Passed,
    Skipped,
    Failed,
}

pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    let name = |module: &str| format!("pyverbs {module}");
    if !MODULES.iter().any(|module| rows.is_asked_for(&name(module))) {
        return Ok(());
    }
    if let Some(why) = lacks() {
        rows.skip("pyverbs", &why);
        return Ok(());
    }
    let tests = match tests(rows.scratch.path()) {
        Ok(tests) => tests,
        Err(error) => {
            rows.skip("pyverbs", &error.to_string());
            return Ok(());
        }
    };
    for module in MODULES {
        rows.play(&name(module), &[PYTHON], |place| check(place, &tests, module))?;
    }
    Ok(())
}

/// Why pyverbs does not run here.
fn lacks() -> Option<String> {
    let mut import = Command::new(PYTHON);
    import.args(["-c", "import pyverbs.device"]).stderr(Stdio::null()).stdout(Stdio::null());
    if !import.status().is_ok_and(|status| status.success()) {
        return Some(format!("{PYTHON} has none; {}", super::INSTALL));
    }
    let mut query = Command::new("dpkg-query");
    let version = repo::output(query.args(["-W", "-f", "${Version}", "python3-pyverbs"])).unwrap_or_default();
    let is_listed = version.starts_with(&format!("{VERSION}."));
    (!is_listed).then(|| format!("{LIST} is of version {VERSION}, and {version:?} is installed"))
}

/// The directory that has `tests`, which Debian's source package brings.
fn tests(scratch: &Path) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        let lacks = || Error(format!("{VARIABLE}={}: it has no directory `tests`", named.display()));
        return if named.join("tests").is_dir() { Ok(named) } else { Err(lacks()) };
    }
    let dir = scratch.join("pyverbs");
    let lists = dir.join("lists");
    fs::create_dir_all(lists.join("partial")).map_err(|e| Error::io("create", &lists, &e))?;
    let sources = dir.join("sources.list");
    fs::write(&sources, "deb-src http://deb.debian.org/debian bookworm main\n")
        .map_err(|e| Error::io("write", &sources, &e))?;
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        for option in [
            format!("Dir::Etc::SourceList={}", sources.display()),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", lists.display()),
            "APT::Sandbox::User=root".to_owned(),
        ] {
            apt.args(["-o", &option]);
        }
        apt.arg("-q").args(arguments).current_dir(&dir).stdout(Stdio::null());
        repo::run(apt)
    };
    apt(&["update"])?;
    apt(&["source", "--download-only", &format!("{SOURCE}/bookworm")])?;
    let entries = fs::read_dir(&dir).map_err(|e| Error::io("list", &dir, &e))?;
    let is_original = |path: &PathBuf| path.to_string_lossy().contains(".orig.tar");
    let archive = entries.flatten().map(|entry| entry.path()).find(is_original);
    let archive = archive.ok_or_else(|| Error(format!("the source of {SOURCE} has no archive")))?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).args(["--strip-components=1", "--wildcards", "*/tests/*"]).current_dir(&dir);
    repo::run(tar)?;
    Ok(dir)
}

/// A module of tests, each of which ends as the list has it.
fn check(place: &Place<'_>, tests: &Path, module: &str) -> Result<()> {
    let mut command = place.command(PYTHON, "sim:pyverbs,ip=10.77.0.1");
    command.args(["tests/run_tests.py", "-v", &format!("tests.test_{module}")]).current_dir(tests);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    // It fails if a test does, which the list may know.
    Process::start("tests", command, place.dir)?.end(LIMIT)?;
    let file = place.dir.join("tests.err");
    let said = fs::read(&file).map_err(|e| Error::io("read", &file, &e))?;
    let said = String::from_utf8_lossy(&said);
    let list = repo::root().join(LIST);
    let list = fs::read_to_string(&list).map_err(|e| Error::io("read", &list, &e))?;
    let (ended, known) = (outcomes(&said), listed(&list, module)?);
    let faults = compare(&ended, &known);
    let count = |of: Outcome| ended.values().filter(|(outcome, _)| *outcome == of).count();
    let (passed, skipped, failed) = (count(Outcome::Passed), count(Outcome::Skipped), count(Outcome::Failed));
    println!("{passed} passed, {skipped} skipped and {failed} failed as listed");
    if ended.is_empty() || ran(&said) != Some(ended.len()) {
        return Err(Error(format!(
            "{} tests are known to have ended, of those that ran:\n{said}",
            ended.len()
        )));
    }
    if faults.is_empty() { Ok(()) } else { Err(Error(faults)) }
}

/// How many tests a run says that there were.
fn ran(said: &str) -> Option<usize> {
    let line = said.lines().find_map(|line| line.strip_prefix("Ran "))?;
    line.split(' ').next()?.parse().ok()
}

/// The tests of a run that says all, by name, and what it says of each.
fn outcomes(said: &str) -> BTreeMap<String, (Outcome, String)> {
    let mut found = BTreeMap::new();
    let mut name = None;
    for line in said.lines() {
        // `test_x (tests.test_cq.CQTest)`, then perhaps a line of its description, then ` ... ok`.
        if let Some((method, rest)) = line.split_once(" (tests.test_") {
            let class = rest.split([')', ' ']).next().unwrap_or_default();
            let class = class.strip_suffix(&format!(".{method}")).unwrap_or(class);
            if method.starts_with("test_") {
                name = Some(format!("{class}.{method}"));
            }
        }
        // What the library tells the user may stand before the outcome, which has a line of its own
        // then.
        let ended = line.rsplit_once(" ... ").map_or(line, |(_, ended)| ended);
        let outcome = match ended.split([' ', '\'']).next() {
            Some("ok") => Outcome::Passed,
            Some("skipped") => Outcome::Skipped,
            Some("FAIL" | "ERROR") => Outcome::Failed,
            _ => continue,
        };
        if let Some(name) = name.take() {
            found.insert(name, (outcome, ended.to_owned()));
        }
    }
    found
}

/// What the list says of a module's tests: `skipped` or `failed`, the test, and the reason.
fn listed(list: &str, module: &str) -> Result<BTreeMap<String, Outcome>> {
    let mut known = BTreeMap::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut fields = line.splitn(3, ' ');
        let (outcome, test) = (fields.next(), fields.next().unwrap_or_default());
        let outcome = match outcome {
            Some("skipped") => Outcome::Skipped,
            Some("failed") => Outcome::Failed,
            _ => return Err(Error(format!("{LIST}: `{line}` begins neither `skipped` nor `failed`"))),
        };
        if fields.next().is_none_or(|reason| reason.trim().is_empty()) {
            return Err(Error(format!("{LIST}: `{line}` has no reason")));
        }
        if test.split('.').next() == Some(module) {
            known.insert(test.to_owned(), outcome);
        }
    }
    Ok(known)
}

/// What is not as the list has it.
fn compare(ended: &BTreeMap<String, (Outcome, String)>, known: &BTreeMap<String, Outcome>) -> String {
    let mut faults = String::new();
    for (test, (outcome, said)) in ended {
        let expected = known.get(test).copied().unwrap_or(Outcome::Passed);
        if *outcome != expected {
            let _ = writeln!(faults, "{test} is {outcome:?} ({said}), and listed as {expected:?}");
        }
    }
    for test in known.keys().filter(|test| !ended.contains_key(*test)) {
        let _ = writeln!(faults, "{test} is listed, and did not run");
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "test_create_cq (tests.test_cq.CQTest) ... ok\n\
                        test_resize (tests.test_cq.CQTest)\n\
                        Test CQ resize ... skipped 'no'\n\
                        test_bad (tests.test_cq.Other.test_bad)\n\
                        what it does ... ERROR\n\
                        test_told (tests.test_cq.Other.test_told)\n\
                        what it does ... srnic: this is why\n\
                        ok\n\
                        Ran 4 tests in 1.2s\n";

    #[test]
    fn outcomes_are_found_with_and_without_descriptions() {
        let ended = outcomes(SAID);
        let of = |test: &str| ended.get(test).map(|(outcome, _)| *outcome);
        assert_eq!(of("cq.CQTest.test_create_cq"), Some(Outcome::Passed));
        assert_eq!(of("cq.CQTest.test_resize"), Some(Outcome::Skipped));
        assert_eq!(of("cq.Other.test_bad"), Some(Outcome::Failed));
        assert_eq!(of("cq.Other.test_told"), Some(Outcome::Passed));
        assert_eq!((ended.len(), ran(SAID)), (4, Some(4)));
    }

    #[test]
    fn the_list_must_be_true() {
        let list = "# why\nskipped cq.CQTest.test_resize another's\nfailed cq.Other.test_bad a reason\n";
        let known = listed(list, "cq").expect("a list");
        assert_eq!(compare(&outcomes(SAID), &known), "");
        assert!(listed(list, "pd").expect("a list").is_empty());
        let none = compare(&outcomes(SAID), &BTreeMap::new());
        assert_eq!(none.lines().count(), 2, "{none}");
        let more = listed("skipped cq.CQTest.test_create_cq x\nskipped cq.CQTest.test_gone x\n", "cq");
        let faults = compare(&outcomes(SAID), &more.expect("a list"));
        assert!(faults.contains("test_gone is listed, and did not run"), "{faults}");
        assert!(listed("skipped cq.A.b", "cq").is_err() && listed("passed cq.A.b c", "cq").is_err());
    }

    #[test]
    fn every_line_of_the_list_is_of_a_module_and_has_a_reason() {
        let list = fs::read_to_string(repo::root().join(LIST)).expect("the list");
        let all: usize = MODULES.iter().map(|module| listed(&list, module).expect("a good list").len()).sum();
        let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert_eq!(all, lines.count());
    }
}
