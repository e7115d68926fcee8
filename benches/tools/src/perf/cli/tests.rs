use super::*;

#[test]
fn the_command_lines_are_consistent() {
    let defaults = Defaults { size: "2", iters: "1000", inline: None };
    defaults.command::<BandwidthArgs>().debug_assert();
    defaults.command::<SendBandwidthArgs>().debug_assert();
    defaults.command::<LatencyArgs>().debug_assert();
    defaults.command::<RawBandwidthArgs>().debug_assert();
    defaults.command::<RawLatencyArgs>().debug_assert();
}

#[test]
fn perftest_s_short_options_are_understood() {
    let line =
        "srnic_write_bw -d memif:/tmp/a -s 4096 -n 10 -m 1024 -q 2 -t 64 -p 9 -b -Q 8 -l 4 -I 64 -u 18 host";
    let args = bandwidth(line).expect("all of perftest's");
    let common = &args.common;
    assert_eq!((common.basics.size, common.basics.iters, common.mtu), (4096, 10, Some(Pmtu::B1024)));
    assert_eq!((common.tx_depth, common.basics.port, common.inline_size), (64, 9, 64));
    assert_eq!((common.qp_timeout, common.basics.host.as_deref()), (18, Some("host")));
    assert_eq!((args.qps, args.rates.bidirectional, args.cq_mod, args.post_list), (2, true, Some(8), 4));
}

#[test]
fn the_defaults_are_perftest_s() {
    let args = bandwidth("srnic_write_bw --ib-dev memif:/tmp/a").expect("a server");
    assert_eq!((args.common.basics.port, args.common.tx_depth, args.common.qp_timeout), (18515, 128, 14));
    assert_eq!(
        (args.common.basics.size, args.common.basics.iters, args.common.inline_size),
        (65_536, 5000, 0)
    );
    assert_eq!((args.common.basics.host, args.qps, args.rates.report_gbits), (None, 1, false));
}

#[test]
fn all_is_every_power_of_two() {
    let args = bandwidth("srnic_write_bw -d memif:/tmp/a -a").expect("all sizes");
    let sizes = args.common.basics.sizes();
    assert_eq!((sizes.len(), sizes[0], sizes[22]), (23, 2, 1 << 23));
    assert_eq!(bandwidth("srnic_write_bw -d memif:/tmp/a").expect("one").common.basics.sizes(), [65_536]);
}

#[test]
fn what_is_wrong_is_named() {
    for (rest, reason) in [
        ("-s 0", "0 is not in 1..=1073741824"),
        ("-m 1500", "a path MTU is 256, 512, 1024, 1408, 2048 or 4096"),
        ("-I 300", "300 is not in 0..=240"),
        ("-a -s 5", "cannot be used with"),
        ("-D 5 -n 5", "cannot be used with"),
        ("--use_xrc", "unexpected argument '--use_xrc'"),
        ("-R --bind 10.0.0.1", "cannot be used with"),
        ("--cc cubic", "possible values: fixed, dctcp"),
    ] {
        let error = bandwidth(&format!("srnic_write_bw -d memif:/tmp/a {rest}")).expect_err(rest);
        assert!(error.contains(reason), "{rest}: {error}");
    }
    let error = bandwidth("srnic_write_bw -d mlx5_0").expect_err("no such device");
    assert!(error.contains("has no scheme; give one such as memif:"), "{error}");
}
