//! Plots: lines over a scale, or bars, as SVG that takes the page's own colours for its axes and words.

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

/// What a page shows where people would rather look than read.
#[derive(Clone, Debug)]
pub(crate) enum Picture {
    Lines(Plot),
    Bars(Bars),
}

/// One bar a name, the first on top.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) bars: Vec<(String, f64)>,
}

/// Lines over a common scale.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// What a direction shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) label: &'static str,
    /// Each step multiplies instead of adding.
    pub(crate) is_log: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Ascending.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Of a scale that adds, for the legend above the lines.
const HEADROOM: f64 = 1.3;

const WIDTH: u32 = 720;
const HEIGHT: u32 = 380;

/// Distinct on white and on black, and to most who see colours differently.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0x00, 0x8a, 0xd8),
    RGBColor(0xe6, 0x7e, 0x00),
    RGBColor(0x2a, 0xa1, 0x60),
    RGBColor(0xd6, 0x4a, 0x7d),
    RGBColor(0x8a, 0x76, 0xd6),
    RGBColor(0x8c, 0x8c, 0x4a),
    RGBColor(0xc0, 0x39, 0x2b),
    RGBColor(0x17, 0xa5, 0xa5),
    RGBColor(0xb0, 0x78, 0x50),
    RGBColor(0x7f, 0x8c, 0x8d),
];
/// Stands for the colour of the page's words.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_TEXT: &str = "#010203";

impl Picture {
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Lines(plot) => &plot.title,
            Self::Bars(bars) => &bars.title,
        }
    }

    pub(crate) fn to_svg(&self) -> Result<String> {
        match self {
            Self::Lines(plot) => plot.to_svg(),
            Self::Bars(bars) => bars.to_svg(),
        }
    }
}

impl From<Plot> for Picture {
    fn from(plot: Plot) -> Self {
        Self::Lines(plot)
    }
}

impl Bars {
    const BAR: u32 = 22;
    const LABELS: u32 = 230;

    fn to_svg(&self) -> Result<String> {
        let wrong = |error: String| anyhow!("cannot draw {}: {error}", self.title);
        #[allow(clippy::cast_possible_truncation, reason = "a few bars")]
        let count = self.bars.len() as u32;
        let height = count * Self::BAR + 70;
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let most = self.bars.iter().map(|bar| bar.1).fold(f64::MIN_POSITIVE, f64::max);
        let least = self.bars.iter().map(|bar| bar.1).filter(|value| *value > 0.0);
        let least = least.fold(most, f64::min) / 2.0;
        let font = |size: u32| ("sans-serif", size).into_font().color(&INK);
        // From the top down, each in the middle of its line.
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .x_label_area_size(44)
            .y_label_area_size(Self::LABELS)
            .build_cartesian_2d((least..most * 3.0).log_scale(), (0..count).into_segmented())
            .map_err(|error| wrong(error.to_string()))?;
        let name = |segment: &SegmentValue<u32>| match segment {
            SegmentValue::CenterOf(nth) if *nth < count => {
                self.bars[(count - 1 - nth) as usize].0.clone()
            }
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(INK.mix(0.6))
            .x_desc(self.x.label)
            .x_labels(8)
            .y_labels(count as usize + 1)
            .x_label_formatter(&|value| number(*value))
            .y_label_formatter(&name)
            .label_style(font(13))
            .axis_desc_style(font(14))
            .draw()
            .map_err(|error| wrong(error.to_string()))?;
        let bar = |(nth, &(_, value)): (u32, &(String, f64))| {
            let row = count - 1 - nth;
            let mut bar = Rectangle::new(
                [(least, SegmentValue::Exact(row)), (value, SegmentValue::Exact(row + 1))],
                COLOURS[0].filled(),
            );
            bar.set_margin(3, 3, 0, 0);
            bar
        };
        chart
            .draw_series((0..).zip(&self.bars).map(bar))
            .map_err(|error| wrong(error.to_string()))?;
        let value = |(nth, &(_, value)): (u32, &(String, f64))| {
            let place = (value, SegmentValue::CenterOf(count - 1 - nth));
            EmptyElement::at(place) + Text::new(format!(" {}", number(value)), (2, -7), font(13))
        };
        chart
            .draw_series((0..).zip(&self.bars).map(value))
            .map_err(|error| wrong(error.to_string()))?;
        area.present().map_err(|error| anyhow!("{error}"))?;
        drop(chart);
        drop(area);
        Ok(in_place(&svg, height, &self.title))
    }
}

impl Plot {
    /// The picture. It has no background, and its axes are drawn in the colour of the text around it.
    pub(crate) fn to_svg(&self) -> Result<String> {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        let (mut x, y) = (self.range(|point| point.0, self.x), self.range(|point| point.1, self.y));
        if !self.x.is_log {
            // A little to the right of the last point is enough there.
            x.end *= 1.05 / HEADROOM;
        }
        match (self.x.is_log, self.y.is_log) {
            (true, true) => self.draw(&area, x.log_scale(), y.log_scale()),
            (true, false) => self.draw(&area, x.log_scale(), y),
            (false, true) => self.draw(&area, x, y.log_scale()),
            (false, false) => self.draw(&area, x, y),
        }?;
        area.present().map_err(|error| anyhow!("{error}"))?;
        drop(area);
        Ok(in_place(&svg, HEIGHT, &self.title))
    }

    fn draw<X, Y>(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        x: X,
        y: Y,
    ) -> Result<()>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let wrong = |error: String| anyhow!("cannot draw {}: {error}", self.title);
        let font = |size: u32| ("sans-serif", size).into_font().color(&INK);
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)
            .map_err(|error| wrong(error.to_string()))?;
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(INK.mix(0.6))
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .x_labels(8)
            .y_labels(8)
            .x_label_formatter(&|value| number(*value))
            .y_label_formatter(&|value| number(*value))
            .label_style(font(13))
            .axis_desc_style(font(14))
            .draw()
            .map_err(|error| wrong(error.to_string()))?;
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(2);
            let series = LineSeries::new(line.points.iter().copied(), style).point_size(3);
            chart
                .draw_series(series)
                .map_err(|error| wrong(error.to_string()))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(font(13))
            .draw()
            .map_err(|error| wrong(error.to_string()))
    }

    /// From the least to the greatest of all points, with room; from 0 on a scale that adds.
    fn range(&self, of: impl Fn(&(f64, f64)) -> f64, axis: Axis) -> std::ops::Range<f64> {
        let values = self.lines.iter().flat_map(|line| &line.points).map(of);
        let values = values.filter(|value| value.is_finite() && (!axis.is_log || *value > 0.0));
        let (least, most) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            });
        match (least.is_finite(), axis.is_log) {
            (false, _) => 1.0..10.0,
            (true, true) => {
                // Words stand at powers of ten: there must be two of them.
                let (least, most) = (least / 1.3, most * 1.3);
                if most / least < 100.0 {
                    10_f64.powf(least.log10().floor())..10_f64.powf(most.log10().ceil())
                } else {
                    least..most
                }
            }
            // The legend stands above what adds; what multiplies rises to the right of it.
            (true, false) => 0.0..(most * HEADROOM).max(f64::MIN_POSITIVE),
        }
    }
}

/// As wide as its place, and no wider than it is drawn; in the page's ink, and with a name for those who do not see it.
fn in_place(svg: &str, height: u32, title: &str) -> String {
    let size = format!("width=\"{WIDTH}\" height=\"{height}\" ");
    let title = format!("role=\"img\" aria-label=\"{}\" ", escaped(title));
    svg.replacen(&size, &title, 1).replace(INK_TEXT, "currentColor")
}

/// A number as an axis shows it.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        size if size >= 1e3 => format!("{}k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text as HTML wants it.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(is_log: bool) -> Plot {
        let axis = |label| Axis { label, is_log };
        let line = |name: &str, scale: f64| Line {
            name: name.to_owned(),
            points: vec![(1.0, scale), (10.0, 5.0 * scale), (1000.0, 7.0 * scale)],
        };
        Plot {
            title: "A <plot>".to_owned(),
            x: axis("messages"),
            y: axis("ns"),
            lines: vec![line("ours", 1.0), line("theirs", 10.0)],
        }
    }

    #[test]
    fn a_picture_has_all_lines_in_the_pages_own_ink() {
        for is_log in [true, false] {
            let svg = plot(is_log).to_svg().unwrap();
            assert!(svg.starts_with("<svg "), "{svg}");
            assert!(svg.contains("aria-label=\"A &lt;plot&gt;\""));
            assert!(svg.contains("ours") && svg.contains("theirs") && svg.contains("messages"));
            assert!(svg.contains("currentColor") && !svg.contains(INK_TEXT));
            // Each line and its legend.
            let lines = svg.lines().filter(|line| line.contains("polyline"));
            assert_eq!(lines.filter(|line| line.contains("#008AD8")).count(), 2, "{svg}");
        }
    }

    #[test]
    fn bars_have_their_names_and_values() {
        let axis = Axis { label: "ns", is_log: true };
        let bars = vec![("cached".to_owned(), 0.27), ("getpid".to_owned(), 102.0)];
        let bars = Bars { title: "Clocks".to_owned(), x: axis, bars };
        let svg = Picture::Bars(bars.clone()).to_svg().unwrap();
        for text in ["cached", "getpid", "0.27", "102", "currentColor", "Clocks"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert!(svg.find("cached") > svg.find("getpid"), "drawn from below");
        assert!(Bars { bars: Vec::new(), ..bars }.to_svg().is_ok());
    }

    #[test]
    fn a_plot_of_nothing_is_drawn_all_the_same() {
        for is_log in [true, false] {
            let plot = Plot { lines: Vec::new(), ..plot(is_log) };
            assert!(plot.to_svg().is_ok());
        }
    }

    #[test]
    fn numbers_are_short() {
        let cases =
            [(0.0, "0"), (0.25, "0.25"), (1000.0, "1k"), (2_500_000.0, "2.5M"), (200.0, "200")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
