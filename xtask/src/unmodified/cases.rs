//! What is played: each program with its options, over a good network, and over a bad one where the
//! service repairs losses.

/// A program and its client, at the two ends of a memif.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub program: &'static str,
    options: &'static str,
    pub is_lossy: bool,
}

/// Pingpongs: the options of each, and whether its service repairs losses.
const PINGPONGS: [(&str, &[&str], bool); 4] = [
    ("ibv_rc_pingpong", &["", "-e", "-c", "-N", "-N -e -c"], true),
    ("ibv_uc_pingpong", &["", "-e -c"], false),
    ("ibv_ud_pingpong", &["", "-e -c"], false),
    ("ibv_srq_pingpong", &["", "-e -c"], true),
];

/// perftest: likewise.
const PERFTEST: [(&str, &[&str], bool); 14] = [
    ("ib_send_bw", &["-a -n 100", "-e", "-b", "-q 8 -n 200", "--use-srq -q 4 -n 200"], true),
    ("ib_write_bw", &["-a -n 100", "-b", "-q 8 -n 200"], true),
    ("ib_read_bw", &["-a -n 100", "-e", "-b", "-q 8 -n 200"], true),
    ("ib_atomic_bw", &["", "-e", "-b", "-q 8 -n 200", "-A CMP_AND_SWAP"], true),
    ("ib_send_lat", &["-a -n 100", "--use-srq"], true),
    // It takes whichever event comes first for its send's, and waits for ever where an
    // acknowledgement was lost and the answer came first.
    ("ib_send_lat", &["-e"], false),
    ("ib_write_lat", &["-a -n 100"], true),
    ("ib_read_lat", &["-a -n 100", "-e"], true),
    ("ib_atomic_lat", &["", "-e", "-A CMP_AND_SWAP"], true),
    ("ib_send_bw", &["-c UC", "-c UC -e", "-c UD", "-c UD -e"], false),
    ("ib_write_bw", &["-c UC"], false),
    ("ib_send_lat", &["-c UC", "-c UD"], false),
    ("ib_write_lat", &["-c UC -n 100"], false),
    ("ib_send_bw", &["-c UC -q 8 -n 200"], false),
];

/// UCX: what each layer plays. Its UD repairs losses by itself.
const UCX: [(&str, &[&str], bool); 3] = [
    (
        "ucx_perftest",
        &[
            "-d srnic0:1 -x rc_verbs -t am_lat -n 1000",
            "-d srnic0:1 -x rc_verbs -t am_bw -n 1000",
            "-d srnic0:1 -x rc_verbs -t put_lat -n 1000",
            "-d srnic0:1 -x rc_verbs -t put_bw -n 1000 -s 4096 -D zcopy",
            "-d srnic0:1 -x rc_verbs -t get -n 1000 -s 4096 -D zcopy",
            "-d srnic0:1 -x rc_verbs -t add_lat -n 1000",
            "-d srnic0:1 -x rc_verbs -t add_mr -n 1000",
        ],
        true,
    ),
    (
        "ucx_perftest",
        &["-d srnic0:1 -x ud_verbs -t am_lat -n 1000", "-d srnic0:1 -x ud_verbs -t am_bw -n 1000"],
        true,
    ),
    (
        "ucx_perftest",
        &[
            "-t tag_lat -n 1000",
            "-t tag_bw -n 1000 -s 65536",
            "-t ucp_put_lat -n 1000",
            "-t ucp_put_bw -n 1000 -s 65536",
            "-t ucp_get -n 1000 -s 65536",
            "-t ucp_fadd -n 1000",
            "-t ucp_cswap -n 1000",
            "-t stream_bw -n 1000",
            "-t ucp_am_lat -n 1000",
        ],
        true,
    ),
];

/// libfabric: connected endpoints, and those of its own two layers above connections and datagrams.
/// The latter (`ofi_rxd`) repairs losses only while the program asks for progress. `fi_pingpong`
/// waits on its TCP connection behind each size: if the last datagram is lost, both ends wait for
/// ever.
const LIBFABRIC: [(&str, &[&str], bool); 2] = [
    ("fi_pingpong", &["-p verbs -e msg -I 100", "-p verbs;ofi_rxm -e rdm -I 100"], true),
    ("fi_pingpong", &["-p verbs;ofi_rxd -e rdm -I 100", "-p verbs -e dgram -I 100"], false),
];

/// The end of a pair that an argument is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Server,
    Client,
}

impl Case {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let rows = PINGPONGS.into_iter().chain(PERFTEST).chain(UCX).chain(LIBFABRIC);
        rows.flat_map(|(program, options, repairs)| {
            let losses: &[bool] = if repairs { &[false, true] } else { &[false] };
            options.iter().flat_map(move |options| {
                losses.iter().map(move |&is_lossy| Self { program, options, is_lossy })
            })
        })
    }

    /// What the table calls it.
    pub fn name(&self) -> String {
        let loss = if self.is_lossy { "1 % loss" } else { "" };
        let parts = [self.program, self.options, loss];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// The option that is followed by the TCP port where the server waits.
    pub fn port_option(&self, end: End) -> &'static str {
        match (self.program, end) {
            ("fi_pingpong", End::Server) => "-B",
            ("fi_pingpong", End::Client) => "-P",
            _ => "-p",
        }
    }

    /// The arguments of both sides, but for the port.
    pub fn options(&self) -> impl Iterator<Item = &'static str> {
        // The GID of the device; and whatever the processor's clock does.
        let own = match self.program.get(..3) {
            Some("ibv") => "-g 0",
            Some("ib_") => "-F -x 0",
            _ => "",
        };
        own.split_whitespace().chain(self.options.split_whitespace())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_case_has_a_name_of_its_own_and_only_what_repairs_losses_meets_them() {
        let all: Vec<_> = Case::all().collect();
        let names: BTreeSet<_> = all.iter().map(Case::name).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.contains("ibv_rc_pingpong -N -e -c 1 % loss") && names.contains("ib_read_bw -b"));
        let unreliable =
            all.iter().filter(|case| case.name().contains("uc_") || case.name().contains("-c U"));
        assert!(unreliable.clone().count() > 5 && unreliable.into_iter().all(|case| !case.is_lossy));
    }

    #[test]
    fn ports_are_given_in_the_way_of_each_program() {
        let options = |program: &str| {
            let case = Case::all().find(|case| case.program == program).expect("there is one");
            [End::Server, End::Client].map(|end| case.port_option(end))
        };
        assert_eq!([options("ib_send_bw"), options("fi_pingpong")], [["-p", "-p"], ["-B", "-P"]]);
    }

    #[test]
    fn programs_are_given_the_gid_in_their_own_way() {
        let arguments = |program: &str| -> Vec<_> {
            let case = Case::all().find(|case| case.program == program && case.options == "-e");
            case.map(|case| case.options().collect()).unwrap_or_default()
        };
        assert_eq!(arguments("ibv_rc_pingpong"), ["-g", "0", "-e"]);
        assert_eq!(arguments("ib_send_lat"), ["-F", "-x", "0", "-e"]);
        let ucx = Case::all().find(|case| case.program == "ucx_perftest").expect("there is one");
        assert!(ucx.options().eq("-d srnic0:1 -x rc_verbs -t am_lat -n 1000".split(' ')));
    }
}
