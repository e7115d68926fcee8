//! What a device tells, read as strictly as OpenMetrics 1.0 has it, and the dashboard that asks for
//! it.

use std::collections::{BTreeMap, BTreeSet};
use verbs_api::{Device, StatAddress};

/// A family of metrics.
#[derive(Debug, Default)]
struct Family {
    help: String,
    kind: String,
    unit: String,
    /// Values by labels, as they are written.
    metrics: BTreeMap<String, f64>,
}

/// What metrics of a type have behind the name of their family.
fn suffix(kind: &str) -> &'static str {
    match kind {
        "counter" => "_total",
        "info" => "_info",
        "gauge" => "",
        _ => panic!("no type of ours: {kind}"),
    }
}

/// Families by name. It panics at the first line that OpenMetrics does not have, or not there.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let body = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {text}"));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            let [keyword, name, value] = words[..] else { panic!("{line}") };
            if keyword == "HELP" {
                assert!(!families.contains_key(name), "{name} comes twice");
                name.clone_into(&mut current);
            }
            assert_eq!(name, current, "{line}");
            let family = families.entry(current.clone()).or_default();
            let field = match keyword {
                "HELP" => &mut family.help,
                "TYPE" => &mut family.kind,
                "UNIT" => &mut family.unit,
                _ => panic!("{line}"),
            };
            assert!(field.is_empty() && family.metrics.is_empty() && !value.is_empty(), "{line}");
            value.clone_into(field);
        } else {
            let family = families.get_mut(&current).unwrap_or_else(|| panic!("of no family: {line}"));
            let (metric, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
            let (name, labels) = metric.split_once('{').unwrap_or((metric, "}"));
            assert_eq!(name, format!("{current}{}", suffix(&family.kind)), "{line}");
            assert!(labels.ends_with('}'), "{line}");
            let value: f64 = value.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(family.metrics.insert(labels.to_owned(), value), None, "{line} comes twice");
        }
    }
    families
}

/// What a device with a queue pair tells.
fn told(name: &str) -> BTreeMap<String, Family> {
    let path = std::env::temp_dir().join(format!("srnic-metrics-{name}-{}", std::process::id()));
    let device = Device::open(&format!("sim:metrics-{name},stat={}", path.display())).expect("a device");
    let (pd, cq) = (device.alloc_pd(), device.create_cq(16).expect("a queue"));
    let _pair = pd.queue_pair(&cq, &cq).create().expect("a queue pair");
    parse(&StatAddress::Unix(path).read().expect("an answer"))
}

#[test]
fn every_family_is_explained_and_has_the_unit_in_its_name() {
    let families = told("families");
    for (name, family) in &families {
        assert!(name.starts_with("srnic_") && !name.ends_with("_total"), "{name}");
        assert!(family.help.len() > 10 && family.help.ends_with('.'), "{name}: {}", family.help);
        let units: Vec<&str> = ["bytes", "seconds"].into_iter().filter(|unit| name.ends_with(unit)).collect();
        assert_eq!(units.first().copied().unwrap_or_default(), family.unit, "{name}");
    }
    let value = |name: &str| families[name].metrics.values().copied().collect::<Vec<_>>();
    assert_eq!(value("srnic_link_up"), [1.0]);
    assert!(value("srnic_link_error").is_empty());
    assert_eq!(value("srnic_sampled_one_in"), [0.0], "nothing is sampled");
    assert_eq!(value("srnic_qp"), [1.0]);
    assert_eq!(value("srnic_qp_completed_requests"), [0.0]);
    assert_eq!(
        (families["srnic_port_rx_bytes"].kind.as_str(), value("srnic_port_rx_bytes").len()),
        ("counter", 1)
    );
    let labels = families["srnic_qp_silent_seconds"].metrics.keys().next().expect("a queue pair");
    assert!(labels.starts_with("qpn=\"") && labels.ends_with("\"}"), "{labels}");
}

#[test]
#[should_panic(expected = "of no family: srnic_b 1")]
fn a_metric_without_a_family_is_seen() {
    parse("srnic_b 1\n# EOF\n");
}

#[test]
#[should_panic(expected = "srnic_a_total")]
fn a_counter_that_is_not_called_one_is_seen() {
    parse("# HELP srnic_a It counts.\n# TYPE srnic_a counter\nsrnic_a 1\n# EOF\n");
}

/// Every text below a key of that name.
fn texts<'a>(json: &'a serde_json::Value, key: &str, found: &mut Vec<&'a str>) {
    match json {
        serde_json::Value::Object(fields) => {
            found.extend(fields.get(key).and_then(serde_json::Value::as_str));
            fields.values().for_each(|value| texts(value, key, found));
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| texts(value, key, found)),
        _ => {}
    }
}

/// The names of metrics in a query; one that ends in `.*` stands for all that begin with it.
fn metrics_of(query: &str) -> Vec<&str> {
    let begins = query.match_indices("srnic_").map(|(at, _)| &query[at..]);
    let inside = |char: char| char.is_ascii_alphanumeric() || "_.*".contains(char);
    begins.map(|rest| rest.split(|char| !inside(char)).next().unwrap_or_default()).collect()
}

/// Those that nobody tells.
fn unknown<'a>(query: &'a str, names: &BTreeSet<String>) -> Vec<&'a str> {
    let known = |name: &str| match name.split_once(".*") {
        Some((begin, end)) => names.iter().any(|name| name.starts_with(begin) && name.ends_with(end)),
        None => names.contains(name),
    };
    metrics_of(query).into_iter().filter(|name| !known(name)).collect()
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let families = told("dashboard");
    let names: BTreeSet<String> =
        families.iter().map(|(name, family)| format!("{name}{}", suffix(&family.kind))).collect();
    let dashboard = include_str!("../../docs/grafana/srnic.json");
    let dashboard = serde_json::from_str(dashboard).expect("it is JSON");
    let mut queries = Vec::new();
    texts(&dashboard, "expr", &mut queries);
    texts(&dashboard, "definition", &mut queries);
    assert!(queries.len() > 20, "{queries:?}");
    for query in queries {
        assert!(!metrics_of(query).is_empty(), "{query}");
        assert_eq!(unknown(query, &names), Vec::<&str>::new(), "{query}");
    }
    assert_eq!(unknown("rate(srnic_port_rx_packets{a=\"b\"}[1m])", &names), ["srnic_port_rx_packets"]);
    assert_eq!(unknown("{__name__=~\"srnic_fallen_.*_total\"}", &names), ["srnic_fallen_.*_total"]);
}
