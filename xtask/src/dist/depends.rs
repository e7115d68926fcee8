//! Dependencies of a Debian package, each named once.
//!
//! cargo-deb asks `dpkg-shlibdeps` for each program and library by itself and puts the answers side
//! by side, so a package that several of them need stands there with several versions.

use std::cmp::Ordering;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};
use crate::repo;
use crate::scratch::Scratch;

/// The field of a package's control file.
const FIELD: &str = "Depends: ";

/// Writes the package again, with one dependency for each other package: the strictest.
pub fn merge(package: &Path) -> Result<()> {
    let scratch = Scratch::new()?;
    let tree = scratch.path().join("tree");
    let mut extract = Command::new("dpkg-deb");
    extract.arg("--raw-extract").arg(package).arg(&tree);
    repo::run(extract)?;
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control).map_err(|e| Error::io("read", &control, &e))?;
    fs::write(&control, merged_control(&text, dpkg_order)?).map_err(|e| Error::io("write", &control, &e))?;
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).arg(&tree).arg(package);
    repo::output(&mut build).map(drop)
}

/// The control file with the merged field.
fn merged_control(control: &str, order: impl Fn(&str, &str) -> Result<Ordering>) -> Result<String> {
    let mut text = String::new();
    for line in control.lines() {
        match line.strip_prefix(FIELD) {
            Some(list) => text += &format!("{FIELD}{}", merged(list, &order)?),
            None => text += line,
        }
        text.push('\n');
    }
    Ok(text)
}

/// The list without a dependency on a version that another dependency on the same package exceeds.
/// Alternatives, and relations other than `>=`, stay as they are.
fn merged(list: &str, order: impl Fn(&str, &str) -> Result<Ordering>) -> Result<String> {
    let mut kept: Vec<&str> = Vec::new();
    for dependency in list.split(',').map(str::trim) {
        let same = kept.iter_mut().find(|other| at_least(other).0 == at_least(dependency).0);
        match same {
            None => kept.push(dependency),
            Some(other) => {
                let stricter = match (at_least(other).1, at_least(dependency).1) {
                    (_, None) => false,
                    (None, Some(_)) => true,
                    (Some(old), Some(new)) => order(new, old)? == Ordering::Greater,
                };
                if stricter {
                    *other = dependency;
                }
            }
        }
    }
    Ok(kept.join(", "))
}

/// The package of a dependency, and the version that it must have at least. What is written in
/// another way is a package of its own.
fn at_least(dependency: &str) -> (&str, Option<&str>) {
    let alone = (!dependency.contains('|')).then_some(dependency);
    let parts = alone.and_then(|text| text.strip_suffix(')')?.split_once(" (>= "));
    parts.map_or((dependency, None), |(package, version)| (package, Some(version.trim())))
}

/// The order of two versions, as dpkg has it.
fn dpkg_order(left: &str, right: &str) -> Result<Ordering> {
    for (relation, ordering) in [("gt", Ordering::Greater), ("lt", Ordering::Less)] {
        let mut compare = Command::new("dpkg");
        compare.args(["--compare-versions", left, relation, right]);
        let status = compare.status().map_err(|e| Error(format!("cannot run dpkg: {e}")))?;
        if status.success() {
            return Ok(ordering);
        }
    }
    Ok(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By numbers with dots.
    fn order(left: &str, right: &str) -> Result<Ordering> {
        let numbers = |text: &str| text.split('.').map(|part| part.parse().expect("a number")).collect();
        let (left, right): (Vec<u32>, Vec<u32>) = (numbers(left), numbers(right));
        Ok(left.cmp(&right))
    }

    #[test]
    fn the_strictest_of_several_versions_is_left() {
        let list = "libc6 (>= 2.9), librte-eal23 (>= 22.11), libc6 (>= 2.36), libgcc-s1, libc6 (>= 2.34)";
        let merged = merged(list, order).expect("versions");
        assert_eq!(merged, "libc6 (>= 2.36), librte-eal23 (>= 22.11), libgcc-s1");
    }

    #[test]
    fn a_version_is_stricter_than_none() {
        assert_eq!(merged("a, a (>= 1)", order).expect("versions"), "a (>= 1)");
        assert_eq!(merged("a (>= 1), a", order).expect("versions"), "a (>= 1)");
    }

    #[test]
    fn alternatives_and_other_relations_stay() {
        for list in
            ["a | b, a, c | a, b", "a (= 1), a (= 2), a (<< 3), a (>= 1)", "a | b (>= 1), a | b (>= 2)"]
        {
            assert_eq!(merged(list, order).expect("versions"), list);
        }
        assert_eq!(merged("a | b, a | b", order).expect("no versions"), "a | b");
    }

    #[test]
    fn nothing_else_in_the_control_file_changes() {
        let control = "Package: srnic\nDepends: a (>= 1), a (>= 2)\nRecommends: b, b\nDescription: x\n y\n";
        let merged = merged_control(control, order).expect("versions");
        assert_eq!(merged, "Package: srnic\nDepends: a (>= 2)\nRecommends: b, b\nDescription: x\n y\n");
    }

    #[test]
    fn a_package_is_written_again_with_everything_else_as_it_was() {
        if repo::find("dpkg-deb").is_none() {
            println!("skipped: there is no dpkg-deb");
            return;
        }
        let scratch = Scratch::new().expect("a directory of our own");
        let tree = scratch.path().join("made");
        let write = |name: &str, text: &str| {
            let path = tree.join(name);
            fs::create_dir_all(path.parent().expect("below the tree")).expect("created");
            fs::write(path, text).expect("written");
        };
        let control = "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: m <m@localhost>\n\
                       Depends: libc6 (>= 2.9), other, libc6 (>= 2.36)\nDescription: d\n";
        write("DEBIAN/control", control);
        write("usr/share/p/file", "data");
        std::os::unix::fs::symlink("file", tree.join("usr/share/p/link")).expect("a link");
        let package = scratch.path().join("p.deb");
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "--build"]).arg(&tree).arg(&package);
        repo::output(&mut build).expect("a package");
        let said =
            |option: &str| repo::output(Command::new("dpkg-deb").arg(option).arg(&package)).expect("read");
        let before = said("--contents");
        merge(&package).expect("written again");
        assert_eq!(said("--contents"), before);
        let depends = repo::output(Command::new("dpkg-deb").arg("--field").arg(&package).arg("Depends"));
        assert_eq!(depends.expect("read"), "libc6 (>= 2.36), other\n");
    }
}
