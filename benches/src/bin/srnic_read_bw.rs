//! Bandwidth of RDMA READs between two processes.

fn main() -> std::process::ExitCode {
    srnic_benches::perf::bandwidth::read_main()
}
