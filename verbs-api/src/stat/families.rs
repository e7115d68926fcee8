//! Families of metrics: what they all have in common.

use core::fmt;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeLabelSet, EncodeLabelValue, EncodeMetric as _,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Labels of one metric: names and values.
type Labels<V, const N: usize> = [(&'static str, V); N];

/// Writes one family of metrics after the other. One without metrics is written too, so that the
/// names are the same at any time.
pub struct Families<'a>(pub DescriptorEncoder<'a>);

impl Families<'_> {
    pub fn counter(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        counter.encode(self.0.encode_descriptor(name, help, unit, MetricType::Counter)?)
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let gauge = ConstGauge::new(value);
        gauge.encode(self.0.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }

    pub fn counters<L: EncodeLabelSet, C: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl IntoIterator<Item = (L, C)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        for (labels, value) in values {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    pub fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in values {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    pub fn infos<V: EncodeLabelValue, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        infos: impl IntoIterator<Item = Labels<V, N>>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Info)?;
        infos.into_iter().try_for_each(|labels| family.encode_info(&labels))
    }
}
