//! From the text of `perf script` to a flame graph: what was inlined is put back, names are made
//! short.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::Command;

use inferno::collapse::{Collapse, perf::Folder};
use inferno::flamegraph;

use crate::error::{Error, Result};
use crate::repo;

/// Parts narrower than this many percent are left out.
const NARROWEST: f64 = 0.4;
const WIDTH: usize = 1200;
/// What stands between the start of every Rust program and its own functions.
const START: &str = "__rust_begin_short_backtrace";

/// A line of a stack: `7f3a name+0x10 (/path/of/object)`.
#[derive(Clone, Copy)]
struct Frame<'a> {
    address: u64,
    name: &'a str,
    object: &'a str,
}

impl<'a> Frame<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let stack = line.strip_prefix(char::is_whitespace)?;
        let (address, rest) = stack.trim_start().split_once(' ')?;
        let (name, object) = rest.strip_suffix(')')?.rsplit_once(" (/")?;
        let (name, _) = name.rsplit_once("+0x").unwrap_or((name, ""));
        Some(Self { address: u64::from_str_radix(address, 16).ok()?, name, object })
    }
}

/// The lines of a recording, each with what it says if it is of `program`'s. All but the innermost
/// addresses of a stack are where calls return to: one byte before is part of the call, and where
/// to look for what was inlined.
fn frames<'a>(script: &'a str, program: &str) -> impl Iterator<Item = (&'a str, Option<Frame<'a>>)> {
    let program = program.trim_start_matches('/');
    let mut innermost = true;
    script.lines().map(move |line| {
        if !line.starts_with(char::is_whitespace) {
            innermost = true;
            return (line, None);
        }
        let called = u64::from(!std::mem::replace(&mut innermost, false));
        let ours = Frame::of(line).filter(|frame| frame.object == program);
        (line, ours.map(|frame| Frame { address: frame.address.saturating_sub(called), ..frame }))
    })
}

/// The functions at each address, the innermost first, by what `addr2line` prints. Those of the
/// standard library and closures are left out where they are inlined: they say nothing that their
/// callers do not.
fn functions(printed: &str) -> HashMap<u64, Vec<String>> {
    let mut all = HashMap::new();
    let mut lines = printed.lines().peekable();
    while let Some(address) = lines.next() {
        let mut names: Vec<(String, bool)> = Vec::new();
        while let Some(name) = lines.next_if(|line| !line.starts_with("0x")) {
            let place = lines.next().unwrap_or_default();
            names.push((name.to_owned(), place.starts_with("/rustc/") || name.starts_with("{closure")));
        }
        let outermost = names.pop();
        // Binutils may give the innermost the name of the whole: what it is it does not know.
        if let (Some(first), Some(outermost)) = (names.first_mut(), &outermost) {
            first.1 |= first.0 == outermost.0;
        }
        names.retain(|(_, noise)| !noise);
        let digits = address.trim_start_matches("0x");
        if let Ok(address) = u64::from_str_radix(digits, 16) {
            all.insert(address, names.into_iter().chain(outermost).map(|(name, _)| name).collect());
        }
    }
    all
}

/// The recording, with a line for each function that was inlined.
fn expand(script: &str, program: &str, functions: &HashMap<u64, Vec<String>>) -> String {
    let mut text = String::with_capacity(2 * script.len());
    for (line, frame) in frames(script, program) {
        let Some(frame) = frame else {
            text += &format!("{line}\n");
            continue;
        };
        // Neither the address nor the object is looked at from here on.
        let mut push = |name: &str| text += &format!("\t1 {name} (program)\n");
        match functions.get(&frame.address).filter(|names| names.len() > 1) {
            Some(names) => names.iter().for_each(|name| push(name)),
            None => push(frame.name),
        }
    }
    text
}

/// Asks `addr2line` what was inlined where. `directory` is for the list of addresses.
fn look_up(addresses: &BTreeSet<u64>, program: &Path, directory: &Path) -> Result<HashMap<u64, Vec<String>>> {
    let list = directory.join("addresses");
    let text: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    fs::write(&list, text).map_err(|e| Error::io("write", &list, &e))?;
    let mut command = Command::new("addr2line");
    command.args(["--addresses", "--functions", "--inlines", "--exe"]).arg(program);
    command.arg(format!("@{}", list.display()));
    repo::output(&mut command).map(|printed| functions(&printed))
}

/// Folds the text of `perf script`: a line for each kind of stack, from the program's name inwards,
/// and how many nanoseconds it was there.
pub fn fold(script: &str, program: &Path, directory: &Path) -> Result<Vec<String>> {
    let path = program.to_string_lossy();
    let addresses = frames(script, &path).filter_map(|(_, frame)| Some(frame?.address)).collect();
    collapse(&expand(script, &path, &look_up(&addresses, program, directory)?))
}

fn collapse(script: &str) -> Result<Vec<String>> {
    let mut folded = Vec::new();
    let done = Folder::default().collapse(script.as_bytes(), &mut folded);
    done.map_err(|e| Error(format!("what perf recorded cannot be read: {e}")))?;
    let lines: Vec<String> = String::from_utf8_lossy(&folded).lines().filter_map(shortened).collect();
    if lines.is_empty() { Err(Error::new("perf recorded no stack")) } else { Ok(lines) }
}

/// A folded stack without what precedes the program's own functions, all names made short.
fn shortened(line: &str) -> Option<String> {
    let (stack, count) = line.rsplit_once(' ')?;
    let frames: Vec<&str> = stack.split(';').collect();
    let (root, all) = frames.split_first()?;
    let start = all.iter().position(|frame| frame.contains(START)).map_or(0, |at| at + 1);
    let names = all[start..].iter().map(|frame| short(frame));
    let stack: Vec<String> = std::iter::once((*root).to_owned()).chain(names).collect();
    Some(format!("{} {count}", stack.join(";")))
}

/// `Engine::turn` for `<datapath::engine::Engine<P>>::turn`: the last two parts of a demangled
/// name, without generics.
fn short(name: &str) -> String {
    let name = name.split(".llvm.").next().unwrap_or(name);
    // An arrow is no bracket.
    let demangled = format!("{:#}", rustc_demangle::demangle(name)).replace("->", "");
    // `<T as Trait>::method` is a method of T.
    let of_type = match demangled.strip_prefix('<') {
        Some(rest) => {
            let end = matching(rest).unwrap_or(rest.len());
            let (inside, method) = rest.split_at(end);
            let of = split_outside(inside, " as ").next().unwrap_or(inside);
            format!("{}{}", without_generics(of), without_generics(method.trim_start_matches('>')))
        }
        None => without_generics(&demangled),
    };
    let parts: Vec<&str> = of_type.split("::").filter(|part| !part.is_empty()).collect();
    parts[parts.len().saturating_sub(2)..].join("::")
}

/// Where the bracket closes that was opened before `text`.
fn matching(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices().find_map(|(at, character)| {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// The parts of `text` between occurrences of `separator` that stand in no brackets.
fn split_outside<'a>(text: &'a str, separator: &str) -> impl Iterator<Item = &'a str> {
    let outside = text
        .match_indices(separator)
        .find(|(at, _)| text[..*at].matches('<').count() == text[..*at].matches('>').count());
    let (first, rest) =
        outside.map_or((text, None), |(at, found)| (&text[..at], Some(&text[at + found.len()..])));
    std::iter::once(first).chain(rest)
}

fn without_generics(name: &str) -> String {
    let mut depth = 0_usize;
    let mut plain = String::new();
    for character in name.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    plain
}

/// Draws folded stacks.
pub fn draw(path: &Path, title: &str, folded: &[String]) -> Result<()> {
    let mut options = flamegraph::Options::default();
    title.clone_into(&mut options.title);
    options.image_width = Some(WIDTH);
    // What the clock's samples stand for.
    "ns".clone_into(&mut options.count_name);
    options.min_width = NARROWEST;
    // The same stacks give the same colours.
    options.deterministic = true;
    let mut svg = Vec::new();
    let drawn = flamegraph::from_lines(&mut options, folded.iter().map(String::as_str), &mut svg);
    drawn.map_err(|e| Error(format!("cannot draw {}: {e}", path.display())))?;
    fs::write(path, svg).map_err(|e| Error::io("write", path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "/bin/srnic tool";
    /// Two samples, as `perf script --no-demangle` prints them.
    const SCRIPT: &str = "\
srnic_tool  7 42.1:     500250 cpu-clock:u: 
\t   2a10 _ZN8datapath2qp8transmit8transmit17h10ee1d883ed998b6E.llvm.17+0x10 (/bin/srnic tool)
\t   1b05 _ZN11srnic_tools4perf3run17h20a95d9995d38cacE+0xa1 (/bin/srnic tool)
\t   1a06 _ZN3std3sys9backtrace28__rust_begin_short_backtrace17he1da76e350fb05f3E+0x6 (/bin/srnic tool)
\t  2724a __libc_start_call_main+0x7a (/usr/lib/libc.so.6)

srnic_tool  7 42.2:     500250 cpu-clock:u: 
\t   2a10 __memmove_evex+0x0 (/usr/lib/libc.so.6)
\t   2a11 _ZN8datapath2qp8transmit8transmit17h10ee1d883ed998b6E.llvm.17+0x11 (/bin/srnic tool)

";

    #[test]
    fn callers_are_looked_up_in_their_call() {
        let addresses: Vec<u64> =
            frames(SCRIPT, PROGRAM).filter_map(|(_, frame)| Some(frame?.address)).collect();
        assert_eq!(addresses, [0x2a10, 0x1b04, 0x1a05, 0x2a10], "the C library is nobody's business");
    }

    #[test]
    fn what_was_inlined_stands_inside_of_what_took_it() {
        let printed = "0x0000000000002a10\nwrite<u8>\n/rustc/5980/library/core/src/ptr/mod.rs:1917\n\
                       push<u8, Vec<u8>>\n/src/slow_path.rs:75\n{closure#0}<u8>\n/src/transmit.rs:31\n\
                       _ZN8datapath2qp8transmit8transmit17h10ee1d883ed998b6E\n/src/transmit.rs:31\n\
                       0x0000000000001a05\nwhole\n/src/part.rs:1\nwhole\n/src/whole.rs:2\n\
                       0x0000000000001b04\n_ZN11srnic_tools4perf3run17h20a95d9995d38cacE\n??:0\n";
        let functions = functions(printed);
        assert_eq!((functions[&0x1b04].len(), &functions[&0x1a05][..]), (1, &["whole".to_owned()][..]));
        let mut folded = collapse(&expand(SCRIPT, PROGRAM, &functions)).expect("two stacks");
        folded.sort();
        let inside = "transmit::transmit;push";
        assert_eq!(
            folded,
            [
                format!("srnic_tool;perf::run;{inside} 500250"),
                format!("srnic_tool;{inside};__memmove_evex 500250")
            ]
        );
    }

    #[test]
    fn names_are_those_of_types_and_functions() {
        for (long, expected) in [
            (
                "_ZN70_$LT$verbs_api..device..Device$u20$as$u20$srnic_tools..pump..Drive$GT$5drive17h83934b1765f9f6d7E",
                "Device::drive",
            ),
            ("<datapath::engine::Engine<P>>::turn", "Engine::turn"),
            ("datapath::engine::send::<impl datapath::engine::Engine<P>>::schedule", "send::schedule"),
            ("<dyn Fn(u8) -> Vec<u8> as core::ops::Fn>::call", "dyn Fn(u8)  Vec::call"),
            (
                "send_retries<datapath::engine::tx_slots::Wire<datapath::port::memif::MemifPort>>",
                "send_retries",
            ),
            ("[unknown]", "[unknown]"),
            ("", ""),
        ] {
            assert_eq!(short(long), expected);
        }
    }

    #[test]
    fn a_figure_names_what_is_wide_enough() {
        let path = std::env::temp_dir().join(format!("srnic-flame-{}.svg", std::process::id()));
        let folded = ["tool;run;transmit 999".to_owned(), "tool;run;rare 1".to_owned()];
        draw(&path, "WRITEs & more", &folded).expect("it can be drawn");
        let svg = fs::read_to_string(&path).expect("an SVG");
        fs::remove_file(&path).expect("it can be removed");
        assert!(
            svg.contains("<svg ")
                && svg.contains("WRITEs &amp; more")
                && svg.contains("<title>transmit (999 ns")
        );
        assert!(!svg.contains("rare"), "one of a thousand is too narrow");
    }

    #[test]
    fn nothing_recorded_is_an_error() {
        assert_eq!(collapse(""), Err(Error::new("perf recorded no stack")));
    }
}
