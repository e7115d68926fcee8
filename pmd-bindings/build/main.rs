//! Finds DPDK with pkg-config, compiles the shim, generates the bindings.

mod release;

use std::env;
use std::path::PathBuf;
use std::process::Command;

const HOW_TO_INSTALL: &str = "run `cargo xtask setup`, or on Debian and Ubuntu:\n    \
     apt-get install -y --no-install-recommends libdpdk-dev libclang-dev pkg-config gcc libc6-dev";

fn main() {
    for file in ["shim/shim.c", "shim/shim.h"] {
        println!("cargo:rerun-if-changed={file}");
    }
    let library = find_dpdk();
    let cflags = pkg_config_cflags();
    compile_shim(&cflags);
    generate_bindings(&cflags);
    // After the shim, which needs them. The drivers are plugins that EAL loads at run time from
    // DPDK's own directory.
    for path in &library.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    for lib in library.libs.iter().filter(|lib| lib.starts_with("rte_")) {
        println!("cargo:rustc-link-lib=dylib={lib}");
    }
}

fn find_dpdk() -> pkg_config::Library {
    for variable in ["PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    if let Some(version) = pkg_config_output(&["--modversion", "libdpdk"])
        && let Err(unsupported) = release::supported(version.trim())
    {
        fail(&unsupported);
    }
    let probe = pkg_config::Config::new().cargo_metadata(false).probe("libdpdk");
    probe.unwrap_or_else(|error| {
        fail(&format!("DPDK was not found: {HOW_TO_INSTALL}\n\npkg-config said: {error}"))
    })
}

/// The flags verbatim: they carry `-include rte_config.h` and the `-march` that DPDK's inline
/// functions need.
fn pkg_config_cflags() -> Vec<String> {
    let output = pkg_config_output(&["--cflags", "libdpdk"])
        .unwrap_or_else(|| fail("`pkg-config --cflags libdpdk` failed"));
    output.split_whitespace().map(str::to_owned).collect()
}

fn pkg_config_output(args: &[&str]) -> Option<String> {
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let output = Command::new(program).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn compile_shim(cflags: &[String]) {
    let mut build = cc::Build::new();
    build.file("shim/shim.c").warnings(true).extra_warnings(true).flag_if_supported("-Wno-unused-parameter");
    // The burst functions are the hot path of debug builds too.
    build.opt_level(2);
    for flag in cflags {
        build.flag(flag);
    }
    if let Err(error) = build.try_compile("pmd_shim") {
        fail(&format!("the C shim did not compile: {error}\n{HOW_TO_INSTALL}"));
    }
}

fn generate_bindings(cflags: &[String]) {
    let bindings = bindgen::Builder::default()
        .header("shim/shim.h")
        .clang_args(cflags)
        .allowlist_function("pmd_.*")
        .allowlist_function("rte_strerror|rte_log_set_level_pattern")
        .allowlist_function("rte_eal_hotplug_remove")
        .allowlist_function("rte_thread_(un)?register")
        .allowlist_function(
            "rte_eth_dev_(start|stop|get_port_by_name)|rte_eth_(promiscuous|allmulticast)_enable",
        )
        .allowlist_function("rte_pktmbuf_pool_create|rte_mempool_free")
        .allowlist_function("rte_mempool_(avail|in_use)_count")
        .allowlist_type("pmd_.*")
        .allowlist_var("PMD_.*")
        // Only ever behind a pointer; their layouts differ between DPDK releases.
        .blocklist_type("rte_(mbuf|mempool|memzone).*")
        .raw_line("#[repr(C)] pub struct rte_mbuf { _opaque: [u8; 0] }")
        .raw_line("#[repr(C)] pub struct rte_mempool { _opaque: [u8; 0] }")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .use_core()
        .layout_tests(false)
        .generate_comments(false)
        .generate()
        .unwrap_or_else(|error| fail(&format!("bindgen failed: {error}\n{HOW_TO_INSTALL}")));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("bindings.rs");
    bindings
        .write_to_file(&out)
        .unwrap_or_else(|error| fail(&format!("cannot write {}: {error}", out.display())));
}

fn fail(message: &str) -> ! {
    eprintln!("\nerror: {message}\n");
    std::process::exit(1);
}
