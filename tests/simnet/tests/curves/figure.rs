//! Curves as SVG. `SRNIC_FIGURES=docs/figures cargo test -p srnic-simnet --test curves` writes
//! them.

use crate::bottleneck::Sample;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (720, 420);

/// Draws what each flow got, and the queue below, if the environment names a directory.
pub fn draw(name: &str, title: &str, samples: &[Sample]) {
    let Some(directory) = std::env::var_os("SRNIC_FIGURES") else { return };
    // Tests run in their package's directory; a relative path is meant from the workspace's.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/simnet lies in it");
    let path = root.join(directory).join(format!("{name}.svg"));
    std::fs::create_dir_all(path.parent().expect("it has a directory")).expect("it can be made");
    let area = SVGBackend::new(&path, SIZE).into_drawing_area();
    chart(&area, title, samples).expect("an SVG can be written");
    area.present().expect("an SVG can be written");
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn chart(area: &Area<'_>, title: &str, samples: &[Sample]) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    let (rates, queue) = area.split_vertically(SIZE.1 * 2 / 3);
    let end_us = samples.last().map_or(0.0, |sample| sample.at_ns as f64 / 1e3);
    let flows = samples.iter().map(|sample| sample.gbps.len()).max().unwrap_or(0);
    let top = samples.iter().flat_map(|sample| &sample.gbps).fold(0.0_f64, |top, rate| top.max(*rate));
    let mut chart = ChartBuilder::on(&rates)
        .caption(title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(20)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..end_us, 0.0..top * 1.05)?;
    chart.configure_mesh().light_line_style(TRANSPARENT).y_desc("Gb/s of each flow").draw()?;
    for flow in 0..flows {
        let points =
            samples.iter().filter_map(|sample| Some((sample.at_ns as f64 / 1e3, *sample.gbps.get(flow)?)));
        chart.draw_series(LineSeries::new(points, Palette99::pick(flow).stroke_width(1)))?;
    }
    let longest = samples.iter().map(|sample| sample.queue).max().unwrap_or(0) as f64;
    let mut chart = ChartBuilder::on(&queue)
        .margin(8)
        .x_label_area_size(32)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..end_us, 0.0..longest * 1.05)?;
    chart.configure_mesh().light_line_style(TRANSPARENT).x_desc("us").y_desc("queue, frames").draw()?;
    let points = samples.iter().map(|sample| (sample.at_ns as f64 / 1e3, sample.queue as f64));
    chart.draw_series(LineSeries::new(points, BLACK))?;
    Ok(())
}
