//! What stands around every page: where this is, which generation runs, how old the figures are.
//!
//! Separate because each page carries it, and because the badge must mean the same everywhere. It
//! must never show figures as live that no gateway vouches for any more.

use crate::{AlertCount, Reader, Role, text};

/// Gateways report once in this time.
pub const REPORT_INTERVAL_MS: u64 = 1_000;
/// After this many missed reports the figures are stale.
pub const INTERVALS_MISSED_MAX: u64 = 3;

/// The frame of one page.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Which installation this is.
    pub environment: String,
    /// Origin of this server, for commands that can be copied.
    pub origin: String,
    /// Newest stored generation; 0 when there is none.
    pub generation: u64,
    /// How far it has come.
    pub fleet: Fleet,
    /// How old the figures are.
    pub freshness: Freshness,
    /// How far back "lately" reaches; 0 while there is nothing to compare with.
    pub lately_ms: u64,
    /// When the page was made.
    pub now: Moment,
    /// Who looks at it.
    pub reader: Reader,
    /// Path and query of this page.
    pub here: String,
    /// Alerts that fire.
    pub alerts: AlertCount,
    /// What the operator has to know about this control plane itself.
    pub trouble: Option<&'static str>,
}

/// The gateways in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Known to this control plane.
    pub known: u32,
    /// Connected, with a report that is not stale.
    pub reporting: u32,
    /// Connected and running the newest generation.
    pub running: u32,
    /// Refused the newest generation and keep an older one.
    pub refused: u32,
}

/// How old the newest figures are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Nobody ever reported.
    Never,
    /// The newest report is this old.
    Age {
        /// In milliseconds.
        age_ms: u64,
    },
}

impl Freshness {
    /// True when no report came for three intervals.
    pub const fn is_stale(self) -> bool {
        match self {
            Self::Never => true,
            Self::Age { age_ms } => age_ms > REPORT_INTERVAL_MS * INTERVALS_MISSED_MAX,
        }
    }

    /// The class in the style sheet.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Never => "none",
            Self::Age { .. } if self.is_stale() => "stale",
            Self::Age { .. } => "live",
        }
    }

    /// The words of the badge.
    pub fn words(self) -> String {
        match self {
            Self::Never => "no data yet".to_owned(),
            Self::Age { age_ms } if self.is_stale() => {
                format!("stale, {} old", text::duration(age_ms))
            }
            // Tenths of a second only flicker.
            Self::Age { age_ms } if age_ms < 2 * REPORT_INTERVAL_MS => "live".to_owned(),
            Self::Age { age_ms } => format!("live, {} old", text::duration(age_ms / 1000 * 1000)),
        }
    }
}

impl Frame {
    /// The origin as a word of a command.
    pub fn server(&self) -> String {
        text::shell(&self.origin)
    }

    /// `2 of 3 gateways run generation 43`.
    pub fn rollout(&self) -> String {
        let Fleet {
            known,
            running,
            refused,
            ..
        } = self.fleet;
        let g = self.generation;
        match (known, g) {
            (0, 0) => "no policy and no gateway yet".to_owned(),
            (0, _) => format!("generation {g}, no gateway connected"),
            (_, 0) => format!(
                "{}, no policy yet",
                text::plural(known, "gateway", "gateways")
            ),
            _ => {
                let noun = if known == 1 { "gateway" } else { "gateways" };
                let verb = if running == 1 { "runs" } else { "run" };
                let refused = match refused {
                    0 => String::new(),
                    n => format!(", {n} refused it"),
                };
                format!("{running} of {known} {noun} {verb} generation {g}{refused}")
            }
        }
    }

    /// `in the last 15 s`.
    pub fn lately(&self) -> String {
        format!(
            "in the last {}",
            text::duration(self.lately_ms / 1000 * 1000)
        )
    }

    /// True for whoever may change limits.
    pub fn may_operate(&self) -> bool {
        self.reader.role >= Role::Operator
    }

    /// True for whoever may decide about another person's change.
    pub fn may_approve(&self) -> bool {
        self.reader.role >= Role::Approver
    }

    /// True for whoever may do everything.
    pub fn may_administer(&self) -> bool {
        self.reader.role >= Role::Admin
    }

    /// True on the pages of changes and generations.
    pub fn is_changes(&self) -> bool {
        let mine = ["/changes", "/generations", "/overrides"];
        mine.iter().any(|path| self.here.starts_with(path))
    }

    /// True on the Alerts page.
    pub fn is_alerts(&self) -> bool {
        self.here == "/alerts" || self.here.starts_with("/alerts?")
    }

    /// True on the Advice page, whatever it shows.
    pub fn is_advice(&self) -> bool {
        self.here == "/advice" || self.here.starts_with("/advice?")
    }

    /// True on the list of compartments and on the page of one.
    pub fn is_compartments(&self) -> bool {
        self.here.starts_with("/compartments")
    }

    /// True on the list of tenants and on the page of one.
    pub fn is_tenants(&self) -> bool {
        self.here.starts_with("/tenants")
    }

    /// True on the Routes page, whatever it shows.
    pub fn is_routes(&self) -> bool {
        self.here == "/routes" || self.here.starts_with("/routes?")
    }

    /// True on the Fleet page.
    pub fn is_gateways(&self) -> bool {
        self.here == "/gateways" || self.here.starts_with("/gateways?")
    }

    /// True on the Settings page.
    pub fn is_settings(&self) -> bool {
        self.here == "/settings" || self.here.starts_with("/settings?")
    }

    /// True on the Overview, whatever its filter.
    pub fn is_overview(&self) -> bool {
        self.here == "/" || self.here.starts_with("/?")
    }

    /// True when every known gateway runs the newest generation.
    pub fn is_rolled_out(&self) -> bool {
        self.fleet.known > 0 && self.fleet.running == self.fleet.known
    }
}

/// A moment in time, in both forms a page needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// ISO 8601, UTC, ending in `Z`.
    pub iso: String,
    /// How long before the page was made.
    pub ago_ms: u64,
}

impl Moment {
    /// `2026-07-01 12:00:00 UTC`.
    pub fn utc(&self) -> String {
        let seconds = self.iso.split('.').next().unwrap_or_default();
        format!("{} UTC", seconds.trim_end_matches('Z').replace('T', " "))
    }

    /// `5 min ago`.
    pub fn ago(&self) -> String {
        text::ago(self.ago_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn the_badge_turns_stale_after_three_missed_reports() {
        assert!(!Freshness::Age { age_ms: 3_000 }.is_stale());
        assert!(Freshness::Age { age_ms: 3_001 }.is_stale());
        assert!(Freshness::Never.is_stale());
        assert_eq!(
            Freshness::Age { age_ms: 2_900 }.words(),
            "live, 2.0\u{a0}s old"
        );
    }

    #[test]
    fn rollout_is_a_sentence() {
        let rollout = |known, running, refused, generation| {
            let fleet = Fleet {
                known,
                running,
                refused,
                reporting: running,
            };
            Frame {
                generation,
                fleet,
                ..samples::frame()
            }
            .rollout()
        };
        assert_eq!(rollout(2, 2, 0, 43), "2 of 2 gateways run generation 43");
        assert_eq!(rollout(1, 1, 0, 1), "1 of 1 gateway runs generation 1");
        assert_eq!(
            rollout(3, 1, 2, 7),
            "1 of 3 gateways runs generation 7, 2 refused it"
        );
        assert_eq!(rollout(0, 0, 0, 7), "generation 7, no gateway connected");
        assert_eq!(rollout(0, 0, 0, 0), "no policy and no gateway yet");
        assert_eq!(rollout(1, 0, 0, 0), "1\u{a0}gateway, no policy yet");
    }

    #[test]
    fn moments_are_utc() {
        let moment = Moment {
            iso: "2026-07-01T12:00:00.123Z".to_owned(),
            ago_ms: 0,
        };
        assert_eq!(moment.utc(), "2026-07-01 12:00:00 UTC");
    }
}
