//! Plans from files: a network, a workload, switches and a scheme of a user's own, in TOML.
//! docs/fabric.md has the keys.

mod network;
mod transport;

use crate::clock::Ps;
use crate::limits;
use crate::plan::Plan;
use crate::scheme::Scheme;
use crate::topology::GraphError;
use crate::workload::{Flow, Sizes, SizesError, Workload};
use core::ops::RangeInclusive;
use network::TopologyFile;
use serde::{Deserialize, Serialize};
use transport::{HostFile, SwitchFile};

/// Why a file is no plan.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum FileError {
    /// It is no TOML, or has keys that are not known.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A word that is none of those that are known.
    #[error("{what} must be one of {choices}, not \"{name}\"")]
    Name {
        /// Of what.
        what: &'static str,
        /// The word.
        name: String,
        /// Those that are known.
        choices: String,
    },
    /// A rate at which a byte takes no whole number of picoseconds.
    #[error("{0} Gb/s: 8000 divided by it must be a whole number, as of 10, 25, 40, 50, 100, 200 and 400")]
    Rate(f64),
    /// An end of a link.
    #[error("\"{0}\" is no end of a link: write h0, s3, or h0-59 for many hosts")]
    End(String),
    /// A part that is none.
    #[error("{what} must be from 0 up to 1, not {part}")]
    Part {
        /// Of what.
        what: &'static str,
        /// What was given.
        part: f64,
    },
    /// Bounds of RED that are none.
    #[error("[switch] red: until_bytes is {until}, below from_bytes, which is {from}")]
    Red {
        /// From how many bytes on packets are marked.
        from: u64,
        /// From how many bytes on as many are marked as ever.
        until: u64,
    },
    /// Links have what a tree's keys say.
    #[error("[topology] host_gbps, fabric_gbps and delay_ns are of trees: links have gbps and delay_ns each")]
    OfTrees,
    /// A topology with too little or too much.
    #[error(
        "[topology] needs hosts = 16, 64, 256, 1024 or 4096; or hosts, switches and [[topology.links]]; or \
         pods, racks, hosts_per_rack, aggregations and cores_per_group, of which only the last may be 0, and \
         aggregations too where there is one rack"
    )]
    Topology,
    /// A window that is none.
    #[error("window must be from 1 to {0} packets")]
    Window(u16),
    /// A number out of its range.
    #[error("{what} must be from {least} to {most}, not {number}")]
    Range {
        /// Of what.
        what: &'static str,
        /// What was given.
        number: u64,
        /// The least that it may be.
        least: u64,
        /// The most that it may be.
        most: u64,
    },
    /// More than a number says.
    #[error("at most 255 workloads")]
    Workloads,
    /// The links are no network.
    #[error("{0}")]
    Graph(#[from] GraphError),
    /// The knots are no distribution.
    #[error("sizes: {0}")]
    Sizes(#[from] SizesError),
    /// The scheme has no such thing.
    #[error("[host] {keys}: {scheme} has no such thing; leave it out, or take another scheme")]
    Unused {
        /// The keys that it leaves out of account.
        keys: String,
        /// The scheme that the file names.
        scheme: &'static str,
    },
    /// Many messages, and nobody says of how many bytes.
    #[error("[host] messages needs message_bytes: without it a flow is one message")]
    Messages,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct File {
    scheme: Option<String>,
    seed: Option<u64>,
    time_us: Option<u64>,
    warm_up_us: Option<u64>,
    drain_us: Option<u64>,
    topology: TopologyFile,
    #[serde(default)]
    workload: Vec<WorkloadFile>,
    #[serde(default)]
    host: HostFile,
    #[serde(default)]
    switch: SwitchFile,
}

#[derive(Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum WorkloadFile {
    Poisson { load: f64, sizes: Option<SizesFile> },
    Incast { to: u32, senders: u32, bytes: u32, every_us: u64 },
    Permutation { bytes: u32 },
    AllToAll { bytes: u32 },
    Flows { flows: Vec<FlowFile> },
}

/// How long flows or messages are, as files say it.
#[derive(Clone, PartialEq, Deserialize, Serialize, Debug)]
#[serde(
    untagged,
    expecting = "sizes must be a number of bytes, \"cache-follower\", or knots such as [[100, 0], [1000, 1]]"
)]
pub enum SizesFile {
    /// All have so many bytes.
    Bytes(u32),
    /// A known distribution: `cache-follower`.
    Name(String),
    /// Bytes, and the part, 0 to 1, that is shorter.
    Knots(Vec<(f64, f64)>),
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct FlowFile {
    from: u32,
    to: u32,
    bytes: u32,
    #[serde(default)]
    at_us: u64,
}

/// What sizes may be.
const SIZES: [&str; 3] = ["\"cache-follower\"", "a number of bytes", "knots such as [[100, 0], [1000, 1]]"];

/// The plan that a file describes. Whether its workloads fit its network and its times is for
/// [`Plan::check`] to say, once a caller has changed what it changes.
///
/// # Errors
/// [`FileError`].
pub fn plan(text: &str) -> Result<Plan, FileError> {
    let file: File = toml::from_str(text)?;
    let scheme = match &file.scheme {
        None => Scheme::Srnic,
        Some(name) => {
            Scheme::of_name(name).ok_or_else(|| unknown("scheme", name, Scheme::ALL.map(Scheme::name)))?
        }
    };
    let mut plan = Plan::new(scheme, file.topology.topology()?);
    plan.seed = file.seed.unwrap_or(plan.seed);
    plan.time = microseconds("time_us", file.time_us, limits::TIME_US)?.unwrap_or(plan.time);
    plan.drain = microseconds("drain_us", file.drain_us, limits::PART_US)?.unwrap_or(plan.drain);
    if !file.workload.is_empty() {
        plan.workloads = file.workload.into_iter().map(WorkloadFile::workload).collect::<Result<_, _>>()?;
    }
    let is_at_once = plan.workloads.iter().all(Workload::is_at_once);
    let warm_up = microseconds("warm_up_us", file.warm_up_us, limits::PART_US)?;
    plan.warm_up = warm_up.unwrap_or(if is_at_once { Ps(0) } else { plan.warm_up });
    if plan.workloads.len() > usize::from(u8::MAX) {
        return Err(FileError::Workloads);
    }
    file.host.change(&mut plan)?;
    file.switch.change(&mut plan)?;
    let unused = plan.unused(&plan.changes);
    // A file without a scheme serves all, and may have keys of each.
    if file.scheme.is_some() && !unused.is_empty() {
        return Err(FileError::Unused { keys: unused.join(", "), scheme: scheme.name() });
    }
    Ok(plan)
}

/// A number of a range.
fn within(what: &'static str, number: u64, range: RangeInclusive<u64>) -> Result<u64, FileError> {
    let (least, most) = range.into_inner();
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(FileError::Range { what, number, least, most })
    }
}

/// A time in microseconds, if the file has it.
fn microseconds(
    what: &'static str,
    micros: Option<u64>,
    range: RangeInclusive<u64>,
) -> Result<Option<Ps>, FileError> {
    micros.map(|us| Ok(Ps::from_ns(within(what, us, range)? * 1000))).transpose()
}

/// A time in nanoseconds, if the file has it.
fn nanoseconds(what: &'static str, ns: Option<u64>) -> Result<Option<Ps>, FileError> {
    ns.map(|ns| within(what, ns, limits::DELAY_NS).map(Ps::from_ns)).transpose()
}

fn unknown<const N: usize>(what: &'static str, name: &str, choices: [&str; N]) -> FileError {
    FileError::Name { what, name: name.to_owned(), choices: choices.join(", ") }
}

/// As [`within`], of what fits.
fn small(what: &'static str, number: u32, range: RangeInclusive<u64>) -> Result<u32, FileError> {
    within(what, number.into(), range).map(|_| number)
}

fn positive(what: &'static str, number: u32) -> Result<u32, FileError> {
    small(what, number, 1..=u32::MAX.into())
}

impl WorkloadFile {
    fn workload(self) -> Result<Workload, FileError> {
        Ok(match self {
            Self::Poisson { load, sizes } => {
                let sizes = sizes.map_or(Ok(Sizes::CACHE_FOLLOWER), SizesFile::sizes)?;
                Workload::Poisson { sizes, load }
            }
            Self::Incast { to, senders, bytes, every_us } => {
                let every = microseconds("every_us", Some(every_us), limits::TIME_US)?.unwrap_or_default();
                Workload::Incast { to, senders, bytes: positive("bytes", bytes)?, every }
            }
            Self::Permutation { bytes } => Workload::Permutation { bytes: positive("bytes", bytes)? },
            Self::AllToAll { bytes } => Workload::AllToAll { bytes: positive("bytes", bytes)? },
            Self::Flows { flows } => {
                let flow = |FlowFile { from, to, bytes, at_us }| {
                    let bytes = positive("bytes", bytes)?;
                    let at = microseconds("at_us", Some(at_us), limits::PART_US)?.unwrap_or_default();
                    Ok((from, Flow { at, to, bytes, workload: 0 }))
                };
                Workload::Flows(flows.into_iter().map(flow).collect::<Result<_, FileError>>()?)
            }
        })
    }
}

impl SizesFile {
    /// The distribution.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn sizes(self) -> Result<Sizes, FileError> {
        match self {
            Self::Bytes(bytes) => Ok(Sizes::all(positive("sizes", bytes)?)),
            Self::Name(name) if name == "cache-follower" => Ok(Sizes::CACHE_FOLLOWER),
            Self::Name(name) => Err(unknown("sizes", &name, SIZES)),
            Self::Knots(knots) => Ok(Sizes::of_knots(knots)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostConfig;

    fn refused(text: &str) -> String {
        plan(text).expect_err("refused").to_string()
    }

    /// Of a file that is a plan, why it cannot be played.
    fn unplayable(text: &str) -> String {
        plan(text).expect("a plan").check().expect_err("refused").to_string()
    }

    #[test]
    fn a_file_has_what_it_says() {
        let plan = plan(
            r#"
            scheme = "cx6"
            seed = 7
            time_us = 20
            [topology]
            hosts = 3
            switches = 2
            [[topology.links]]
            between = ["h0-1", "s0"]
            gbps = 40
            delay_ns = 500
            [[topology.links]]
            between = ["h2", "s1"]
            gbps = 100
            delay_ns = 1000
            [[topology.links]]
            between = ["s0", "s1"]
            gbps = 400
            delay_ns = 400_000
            loss = 0.5
            [[workload]]
            kind = "poisson"
            load = 0.2
            sizes = [[100, 0], [1000, 1]]
            [[workload]]
            kind = "flows"
            flows = [{ from = 0, to = 2, bytes = 5000, at_us = 3 }]
            [host]
            mtu = 4096
            control = "dcqcn"
            turn_ns = 100
            notify_gap_us = 0
            cut_gap_us = 4
            [switch]
            buffer_bytes = 1_000_000
            mark_bytes = 50_000
            "#,
        )
        .expect("a plan");
        assert_eq!((plan.scheme, plan.seed, plan.time), (Scheme::Cx6, 7, Ps::from_ns(20_000)));
        assert_eq!((plan.topology.hosts(), plan.topology.path(0, 2).len(), plan.workloads.len()), (3, 3, 2));
        assert_eq!(plan.topology.host_ps_per_byte(1), 200);
        assert_eq!(plan.config().flow_max, 5000);
        let HostConfig::Model(host) = plan.host() else { panic!("a model") };
        assert_eq!((host.mtu.bytes(), host.turn), (4096, Ps::from_ns(100)));
        assert_eq!((host.notify_gap, host.cut_gap), (Ps(0), Ps::from_ns(4000)));
        let switch = plan.config().switch;
        assert_eq!(
            (switch.pool, switch.pfc.map(|pfc| pfc.pool), switch.marks.from),
            (1_000_000, Some(1_000_000), 50_000)
        );
    }

    /// A file needs a topology alone: the rest is that of Figure 12.
    #[test]
    fn a_file_may_be_short() {
        let plan = plan("topology.hosts = 16").expect("a plan");
        assert_eq!((plan.scheme, plan.topology.hosts(), plan.workloads.len()), (Scheme::Srnic, 16, 1));
    }

    /// A flow that would not begin, and a run in which nothing is measured, are refused. Where all
    /// flows begin with the run there is no warm-up.
    #[test]
    fn times_fit_the_workload() {
        let file =
            |head: &str, workload: &str| format!("{head}\ntopology.hosts = 16\n[[workload]]\n{workload}");
        let permutation = file("", "kind = 'permutation'\nbytes = 9");
        assert_eq!(plan(&permutation).expect("a plan").warm_up, Ps(0));
        assert_eq!(plan(&permutation).expect("a plan").check(), Ok(()));
        let short = unplayable(&file("time_us = 100", "kind = 'poisson'\nload = 0.1"));
        assert!(short.contains("warm-up of 100 us") && short.contains("time_us"), "{short}");
        let flow = |at| format!("kind = 'flows'\nflows = [{{ from = 0, to = 1, bytes = 1, at_us = {at} }}]");
        assert_eq!(plan(&file("", &flow(0))).expect("a plan").warm_up, Ps(0));
        let incast = "kind = 'incast'\nto = 0\nsenders = 2\nbytes = 9\nevery_us = ";
        assert!(unplayable(&file("", &format!("{incast}2000"))).contains("incast, after half"));
        assert_eq!(plan(&file("", &format!("{incast}1998"))).expect("a plan").check(), Ok(()));
        let late = unplayable(&file("", &flow(1000)));
        assert!(late.contains("host 0 begins at 1000 us"), "{late}");
        assert_eq!(plan(&file("", &flow(999))).expect("a plan").check(), Ok(()));
    }

    /// A file may have what its scheme leaves out of account only if it names no scheme.
    #[test]
    fn keys_of_other_hosts_are_refused() {
        let file = |scheme: &str, keys: &str| format!("{scheme}\ntopology.hosts = 16\n[host]\n{keys}");
        let engine = "congestion = 'swift'\nrecovery_contexts = 1";
        let of_models = refused(&file("scheme = 'cx6'", engine));
        assert!(of_models.contains("congestion, recovery_contexts: cx6 has no such"), "{of_models}");
        assert!(
            refused(&file("scheme = 'srnic'", "control = 'line'\nmtu = 4096")).contains("control: srnic")
        );
        assert!(refused(&file("scheme = 'irn-dctcp'", "cut_gap_us = 4")).contains("cut_gap_us: irn-dctcp"));
        assert!(plan(&file("scheme = 'irn-dctcp'", "cut_gap_us = 4\ncontrol = 'dcqcn'")).is_ok());
        for (scheme, keys) in [("scheme = 'srnic'", engine), ("", engine), ("", "control = 'line'")] {
            assert!(plan(&file(scheme, keys)).is_ok(), "{scheme} {keys}");
        }
    }

    /// What would wrap, or take all memory, is out of its range.
    #[test]
    fn large_numbers_are_refused() {
        let hosts = "topology.hosts = 16\n";
        for (text, what) in [
            (format!("time_us = 10_000_001\n{hosts}"), "time_us"),
            (format!("{hosts}[switch]\nmark_bytes = 1_000_000_000_000"), "mark_bytes"),
            (format!("{hosts}[switch]\nbuffer_bytes = 0"), "buffer_bytes"),
            (format!("{hosts}[host]\nmessage_bytes = 1\nmessages = 20_000"), "messages"),
            (format!("{hosts}[host]\nturn_ns = 2_000_000_000"), "turn_ns"),
            (format!("{hosts}[host]\nrtt_reference_ns = 4_194_241"), "rtt_reference_ns"),
            (format!("{hosts}topology.delay_ns = 2_000_000_000"), "delay_ns"),
            ("[topology]\nhosts = 65_536\nswitches = 1".to_owned(), "hosts"),
            (tree(8192), "hosts"),
            (tree(65_536), "cores_per_group"),
        ] {
            let refused = refused(&text);
            assert!(refused.contains(&format!("{what} must be from ")), "{text}: {refused}");
        }
    }

    fn tree(racks: u32) -> String {
        format!(
            "[topology]\npods = 8192\nracks = {racks}\nhosts_per_rack = 1\naggregations = 1\ncores_per_group = 1"
        )
    }

    /// Engines have the recovery contexts of the engine's default where they are few, unless a file
    /// says otherwise.
    #[test]
    fn recovery_contexts_are_as_many_as_fit() {
        let contexts = |text: &str| match plan(text).expect("a plan").host() {
            HostConfig::Engine(host) => host.recovery_contexts,
            HostConfig::Model(_) => 0,
        };
        assert_eq!(contexts("topology.hosts = 64"), 64);
        assert_eq!(contexts("topology.hosts = 256"), 2);
        assert_eq!(contexts("topology.hosts = 256\n[host]\nrecovery_contexts = 5"), 5);
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(refused("topology.hosts = 16\nshceme = 'srnic'").contains("shceme"));
        assert!(refused("topology.hosts = 16\nscheme = 'tcp'").contains("one of srnic, "));
        assert!(refused("topology.hosts = 17").contains("16, 64, 256, 1024 or 4096"));
        let workload = |keys: &str| format!("[topology]\nhosts = 16\n[[workload]]\n{keys}");
        assert!(unplayable(&workload("kind = 'poisson'\nload = 2.0")).contains("at most 1"));
        for sizes in ["'bytes'", "'knots'", "-1", "[1, 2]"] {
            let wrong = refused(&workload(&format!("kind = 'poisson'\nload = 0.5\nsizes = {sizes}")));
            assert!(wrong.contains("\"cache-follower\", "), "{sizes}: {wrong}");
            assert!(wrong.contains("[[100, 0], [1000, 1]]"), "{sizes}: {wrong}");
        }
        assert!(
            refused("[topology]\nhosts = 16\n[[workload]]\nkind = 'permutation'\nbytes = 0")
                .contains("bytes must be from 1 to")
        );
        let link = |rest: &str| {
            refused(&format!("[topology]\nhosts = 2\nswitches = 1\n[[topology.links]]\ndelay_ns = 1\n{rest}"))
        };
        assert!(link("between = ['h0-1', 's0']\ngbps = 3").contains("3 Gb/s: 8000"));
        assert!(link("between = ['x0', 's0']\ngbps = 100").contains("\"x0\" is no end"));
        assert!(link("between = ['h0', 's0']\ngbps = 100").contains("host 1 has 0 links"));
        assert!(link("between = ['h0-1', 's0']\ngbps = 100\nloss = 1.5").contains("from 0 up to 1"));
        assert!(link("between = ['h0', 's3-1']\ngbps = 100").contains("\"s3-1\" is no end"));
        let trees = "[topology]\nhosts = 2\nswitches = 1\nhost_gbps = 40\n[[topology.links]]\ndelay_ns = 1\n";
        assert!(refused(&format!("{trees}between = ['h0-1', 's0']\ngbps = 100")).contains("are of trees"));
        let red = |red: &str| refused(&format!("topology.hosts = 16\n[switch]\nred = {{ {red} }}"));
        assert!(red("from_bytes = 9, until_bytes = 9, most = 1.5").contains("most must be"));
        assert!(red("from_bytes = 9, until_bytes = 8, most = 1").contains("until_bytes is 8, below"));
        assert!(refused("[topology]\nhosts = 16\n[host]\nmtu = 1000").contains("one of 256, 512"));
        assert!(refused("[topology]\nhosts = 16\n[host]\nmessages = 4").contains("needs message_bytes"));
        assert!(refused("[topology]\nhosts = 16\n[host]\nwindow = 0").contains("from 1 to"));
        let contexts = "topology.hosts = 16\n[host]\nrecovery_contexts = 0";
        assert!(refused(contexts).contains("recovery_contexts must be from 1 to"));
        assert!(refused("[topology]\nhosts = 16\n[host]\ncongestion = 'bbr'").contains("dctcp"));
    }
}
