use super::*;

fn has(config: &EalConfig, wanted: &str) -> bool {
    config.arguments("0-1", config.memory == Memory::Huge).iter().any(|arg| arg == wanted)
}

#[test]
fn ordinary_pages_do_without_shared_configuration() {
    let config = EalConfig { memory: Memory::Normal, memory_mb: Some(64), ..EalConfig::default() };
    for arg in ["--no-huge", "--no-shconf", "-m64", "--iova-mode=va", "--no-pci", "--lcores=0@(0-1)"] {
        assert!(has(&config, arg), "{arg}");
    }
    assert!(!has(&config, "--in-memory"));
}

#[test]
fn hugepages_go_with_in_memory() {
    let config = EalConfig {
        memory: Memory::Huge,
        pci: true,
        extra: vec!["-a0000:17:00.0".into()],
        ..EalConfig::default()
    };
    for arg in ["--in-memory", "--single-file-segments", "-a0000:17:00.0", "-affff:ff:1f.7"] {
        assert!(has(&config, arg), "{arg}");
    }
    for arg in ["--no-huge", "--no-shconf", "--no-pci", "--iova-mode=va"] {
        assert!(!has(&config, arg), "{arg}");
    }
}

#[test]
fn the_kernel_lists_our_cpus() {
    let list = allowed_cpus();
    assert!(list.split([',', '-']).all(|cpu| cpu.parse::<u32>().is_ok()), "{list:?}");
}
