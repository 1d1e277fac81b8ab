//! The two text formats: Prometheus 0.0.4 and `OpenMetrics` 1.0.

use std::fmt::{self, Display, Write};

use super::histogram::Histogram;

/// A text format of the exposition.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Format {
    /// Prometheus text 0.0.4.
    #[default]
    Text,
    /// `OpenMetrics` text 1.0.
    OpenMetrics,
}

impl Format {
    /// The one that the lines of an `Accept` field prefer. Never a refusal: a client that wants
    /// neither gets the older one.
    pub fn negotiate<'a>(accept: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut open, mut text) = (0.0, 0.0);
        for range in accept.into_iter().flat_map(|line| line.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (version, quality) = parameters(parts);
            match name.as_str() {
                "application/openmetrics-text" if matches!(version, None | Some("1.0.0")) => {
                    open = quality.max(open);
                }
                "text/plain" if matches!(version, None | Some("0.0.4")) => {
                    text = quality.max(text);
                }
                _ => {}
            }
        }
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Text }
    }

    /// The value of `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// `version` and `q` of a media range; a quality that is no number counts as none.
fn parameters<'a>(parts: impl Iterator<Item = &'a str>) -> (Option<&'a str>, f32) {
    let (mut version, mut quality) = (None, 1.0);
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "version" => version = Some(value),
            "q" => quality = value.parse().unwrap_or(0.0),
            _ => {}
        }
    }
    (version, quality)
}

/// What a family of series is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Name and value of each label.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

/// Writes families one after the other. Names come without the prefix and without `_total`.
#[derive(Debug)]
pub(super) struct Writer {
    format: Format,
    out: String,
    name: &'static str,
}

impl Writer {
    pub(super) fn new(format: Format) -> Self {
        Self { format, out: String::with_capacity(16 * 1024), name: "" }
    }

    /// Begins a family. What follows belongs to it.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &'static str) {
        self.name = name;
        let kind_words = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // OpenMetrics names the family, the older format the series.
        let suffix = match (self.format, kind) {
            (Format::Text, Kind::Counter) => "_total",
            (Format::Text | Format::OpenMetrics, _) => "",
        };
        self.line(format_args!("# HELP palisade_{name}{suffix} {help}"));
        self.line(format_args!("# TYPE palisade_{name}{suffix} {kind_words}"));
        if self.format == Format::OpenMetrics && name.ends_with("_seconds") {
            self.line(format_args!("# UNIT palisade_{name} seconds"));
        }
    }

    pub(super) fn counter(&mut self, labels: Labels<'_>, value: u64) {
        self.sample("_total", labels, None, &value);
    }

    pub(super) fn gauge(&mut self, labels: Labels<'_>, value: impl Display) {
        self.sample("", labels, None, &value);
    }

    pub(super) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        let buckets = histogram.cumulative();
        for (bound, count) in &buckets {
            self.sample("_bucket", labels, Some(bound), count);
        }
        self.sample("_sum", labels, None, &Seconds(histogram.sum_nanos()));
        self.sample("_count", labels, None, &buckets[buckets.len() - 1].1);
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.line(format_args!("# EOF"));
        }
        self.out
    }

    fn sample(
        &mut self,
        suffix: &str,
        labels: Labels<'_>,
        bound: Option<&str>,
        value: &dyn Display,
    ) {
        let labels = LabelSet { labels, bound };
        let name = self.name;
        self.line(format_args!("palisade_{name}{suffix}{labels} {value}"));
    }

    /// Writing to a string cannot fail.
    fn line(&mut self, line: fmt::Arguments<'_>) {
        _ = writeln!(self.out, "{line}");
    }
}

/// `{a="1",le="0.5"}`, or nothing.
struct LabelSet<'a> {
    labels: Labels<'a>,
    bound: Option<&'a str>,
}

impl Display for LabelSet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = self.bound.map(|bound| ("le", bound));
        let mut separator = '{';
        for (name, value) in self.labels.iter().copied().chain(bound) {
            write!(f, "{separator}{name}=\"{}\"", Escaped(value))?;
            separator = ',';
        }
        if separator == ',' { f.write_str("}") } else { Ok(()) }
    }
}

/// Text with backslash, quote and line feed escaped, as both formats want it in a
/// label's value.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            _ => f.write_char(c),
        })
    }
}

/// Nanoseconds written as seconds, exactly.
pub(super) struct Seconds(pub(super) u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
