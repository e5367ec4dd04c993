//! Figures as Prometheus text.
//!
//! Separate because the spelling of names, units and escapes is a format of its own. It must
//! never change a figure.

use std::fmt::{self, Display, Write};

use crate::metric::{DURATION_EDGES_US, Distribution, Family, Figure, Point};
use crate::names::{Instrument, InstrumentKind, Label};
use crate::record::Text;

/// The whole page.
pub fn page(families: &[Family]) -> String {
    let mut page = Page(String::new());
    for family in families {
        // Writing to a string cannot fail.
        if page.family(family).is_err() {
            return String::new();
        }
    }
    page.0
}

/// `bulkhead.policy.age` in seconds is `bulkhead_policy_age_seconds`.
fn name_of(instrument: Instrument) -> String {
    let mut name = instrument.name().replace('.', "_");
    match (instrument.unit(), instrument.kind()) {
        ("s", _) => name.push_str("_seconds"),
        // Only a share is a ratio; a number without unit that counts or switches is not.
        ("1", InstrumentKind::Gauge) if matches!(instrument, Instrument::Utilization) => {
            name.push_str("_ratio");
        }
        _ => {}
    }
    if instrument.kind() == InstrumentKind::Counter {
        name.push_str("_total");
    }
    name
}

struct Page(String);

impl Page {
    fn family(&mut self, family: &Family) -> fmt::Result {
        let (name, help) = (name_of(family.instrument), family.instrument.help());
        let kind = match family.instrument.kind() {
            InstrumentKind::Gauge => "gauge",
            InstrumentKind::Counter => "counter",
            InstrumentKind::Histogram => "histogram",
        };
        write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n")?;
        for Point { labels, figure } in &family.points {
            match figure {
                Figure::Whole(value) => self.sample((&name, ""), labels, None, value)?,
                Figure::Number(value) => self.sample((&name, ""), labels, None, value)?,
                Figure::Durations(durations) => self.durations(&name, labels, durations)?,
            }
        }
        Ok(())
    }

    fn durations(
        &mut self,
        name: &str,
        labels: &[(Label, Text)],
        durations: &Distribution,
    ) -> fmt::Result {
        let mut below: u64 = 0;
        let edges = DURATION_EDGES_US.iter().map(|&edge| Some(seconds(edge)));
        for (edge, count) in edges.chain([None]).zip(durations.counts) {
            below = below.saturating_add(count);
            self.sample((name, "_bucket"), labels, Some(edge), below)?;
        }
        self.sample((name, "_sum"), labels, None, seconds(durations.sum_us))?;
        self.sample((name, "_count"), labels, None, below)
    }

    /// `edge`: the upper edge of a bucket, `Some(None)` for the one above all.
    fn sample(
        &mut self,
        (name, suffix): (&str, &str),
        labels: &[(Label, Text)],
        edge: Option<Option<f64>>,
        value: impl Display,
    ) -> fmt::Result {
        write!(self.0, "{name}{suffix}")?;
        let mut open = '{';
        for (label, text) in labels {
            self.0.write_char(open)?;
            open = ',';
            for char in label.name().chars() {
                self.0.write_char(if char == '.' { '_' } else { char })?;
            }
            self.0.write_str("=\"")?;
            self.escaped(text.as_str())?;
            self.0.write_char('"')?;
        }
        if let Some(edge) = edge {
            self.0.write_char(open)?;
            open = ',';
            match edge {
                Some(edge) => write!(self.0, "le=\"{edge}\"")?,
                None => self.0.write_str("le=\"+Inf\"")?,
            }
        }
        self.0.write_str(if open == '{' { "" } else { "}" })?;
        writeln!(self.0, " {value}")
    }

    fn escaped(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            match char {
                '\\' => self.0.write_str("\\\\")?,
                '"' => self.0.write_str("\\\"")?,
                '\n' => self.0.write_str("\\n")?,
                other => self.0.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// Microseconds as seconds, without the digits that binary fractions would add.
#[expect(clippy::cast_precision_loss, reason = "285 years are exact")]
pub(crate) fn seconds(us: u64) -> f64 {
    us as f64 / 1_000_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_unit_and_kind() {
        for (instrument, name) in [
            (Instrument::InFlight, "bulkhead_compartment_in_flight"),
            (
                Instrument::Utilization,
                "bulkhead_compartment_utilization_ratio",
            ),
            (Instrument::Time, "bulkhead_compartment_time_seconds_total"),
            (Instrument::Leaked, "bulkhead_permits_leaked_total"),
            (Instrument::Generation, "bulkhead_policy_generation"),
            (Instrument::PolicyAge, "bulkhead_policy_age_seconds"),
            (
                Instrument::ServerDuration,
                "http_server_request_duration_seconds",
            ),
        ] {
            assert_eq!(name_of(instrument), name);
        }
    }

    #[test]
    fn durations_are_summed_up_by_edge() {
        let mut durations = Distribution {
            sum_us: 1_500,
            ..Distribution::default()
        };
        durations.add(Some(100), 2);
        durations.add(Some(512), 3);
        durations.add(None, 1);
        let mut family = Family::new(Instrument::PermitHold);
        family.push(
            vec![(Label::Compartment, Text::from("route/a"))],
            Figure::Durations(Box::new(durations)),
        );
        let text = page(&[family]);
        let name = "bulkhead_compartment_permit_hold_duration_seconds";
        let of = "bulkhead_compartment=\"route/a\"";
        for line in [
            format!("# TYPE {name} histogram"),
            format!("{name}_bucket{{{of},le=\"0.000256\"}} 2"),
            format!("{name}_bucket{{{of},le=\"0.000512\"}} 5"),
            format!("{name}_bucket{{{of},le=\"67.108864\"}} 5"),
            format!("{name}_bucket{{{of},le=\"+Inf\"}} 6"),
            format!("{name}_sum{{{of}}} 0.0015"),
            format!("{name}_count{{{of}}} 6"),
        ] {
            assert!(text.lines().any(|have| have == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn label_values_are_escaped() {
        let mut family = Family::new(Instrument::InFlight);
        family.push(
            vec![(Label::Reason, Text::from("a\\b\"c\nd"))],
            Figure::Whole(1),
        );
        let text = page(&[family]);
        assert!(
            text.ends_with("in_flight{reason=\"a\\\\b\\\"c\\nd\"} 1\n"),
            "{text}"
        );
    }

    #[test]
    fn every_name_is_there_once() {
        let names: std::collections::BTreeSet<_> = Instrument::ALL
            .iter()
            .map(|&instrument| name_of(instrument))
            .collect();
        assert_eq!(names.len(), Instrument::ALL.len());
    }
}
