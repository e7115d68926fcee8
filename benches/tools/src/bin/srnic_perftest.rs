//! One end of a run against the stock tools of perftest and libibverbs.

fn main() -> std::process::ExitCode {
    srnic_tools::perftest_peer::main()
}
