//! One end of rdma-core's `rping`.

fn main() -> std::process::ExitCode {
    srnic_tools::rping::main()
}
