//! The Overrides page: limits that hold from one moment to another.
//!
//! Separate page by page. The lists are live and the forms are not. It must never call something
//! set that only waits.

use askama::Template;

use crate::{COMMENT_CHARS_MAX, Frame, Moment, text, url};

/// The most overrides in each of the lists.
pub const OVERRIDE_ROWS_MAX: usize = 200;

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "overrides.html", blocks = ["strip", "list"])]
pub struct OverridesPage {
    /// What stands around it.
    pub frame: Frame,
    /// A second person is asked for.
    pub needs_second: bool,
    /// Those that run, the newest first.
    pub running: Vec<OverrideRow>,
    /// Those that wait for their start or for a second person.
    pub ahead: Vec<OverrideRow>,
    /// Those that are over.
    pub ended: Vec<OverrideRow>,
    /// The form, as it was sent if it was refused.
    pub plan: OverrideForm,
    /// Why nothing was done.
    pub refused: Option<String>,
    /// The store did not answer.
    pub store_silent: bool,
}

/// The form that plans one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OverrideForm {
    /// On the page of this compartment.
    pub is_fixed: bool,
    /// The compartment.
    pub key: String,
    /// What its limit is to be.
    pub value: String,
    /// From; empty: now.
    pub start: String,
    /// Until.
    pub end: String,
    /// Whose clock.
    pub zone: String,
    /// Why.
    pub comment: String,
}

/// One override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverrideRow {
    /// Its number.
    pub id: i64,
    /// The compartment.
    pub key: String,
    /// Which of its fields.
    pub field: String,
    /// What it is meanwhile.
    pub value: String,
    /// What is put back, or was; `None` before that was looked at.
    pub before: Option<String>,
    /// How far it has come, in one word.
    pub state: &'static str,
    /// From, as it was written, and in UTC.
    pub start: (String, String),
    /// Until, as it was written, and in UTC.
    pub end: (String, String),
    /// Who made it.
    pub by: String,
    /// When.
    pub at: Moment,
    /// The second person.
    pub approved_by: Option<String>,
    /// Who ended it before its time.
    pub cancelled_by: Option<String>,
    /// Who asks to end it before its time, which waits for a second person.
    pub end_asked_by: Option<String>,
    /// Who agreed to that.
    pub end_approved_by: Option<String>,
    /// Why.
    pub comment: String,
    /// What a zone's clock does, or why it is not as it was meant.
    pub note: Option<String>,
    /// The generation that set it.
    pub set_by: Option<u64>,
    /// The generation that lifted it.
    pub lifted_by: Option<u64>,
}

impl OverrideForm {
    /// The form on the page of a compartment.
    pub fn of(key: &str) -> Self {
        Self {
            is_fixed: true,
            key: key.to_owned(),
            zone: "UTC".to_owned(),
            ..Self::default()
        }
    }

    /// The longest comment.
    pub const fn comment_chars_max(&self) -> usize {
        COMMENT_CHARS_MAX
    }
}

impl OverrideRow {
    /// The page of its compartment.
    pub fn href(&self) -> String {
        url::compartment(&self.key)
    }

    /// It waits or runs.
    pub fn is_open(&self) -> bool {
        matches!(self.state, "proposed" | "waiting" | "running")
    }

    /// A second person has to agree.
    pub fn is_proposed(&self) -> bool {
        let is_asked = self.state == "proposed" || self.end_asked_by.is_some();
        is_asked && self.is_open() && self.cancelled_by.is_none()
    }

    /// Its state in words.
    pub fn word(&self) -> &'static str {
        match (self.state, &self.cancelled_by) {
            ("proposed" | "waiting" | "running", Some(_)) => "ending",
            ("proposed", None) => "needs approval",
            ("waiting" | "running", None) if self.end_asked_by.is_some() => "end needs approval",
            ("left", _) => "left as others set it",
            (state, _) => state,
        }
    }

    /// The class of its state.
    pub fn class(&self) -> &'static str {
        match self.state {
            "proposed" => "watch",
            "running" => "busy",
            "missed" | "refused" => "full",
            "left" => "nearly",
            _ => "idle",
        }
    }

    /// `limit 80 until …`, for the page of its compartment.
    pub fn sentence(&self) -> String {
        let (field, value, end) = (&self.field, &self.value, &self.end.0);
        match self.state {
            "running" => format!("{field} {value} until {end}"),
            _ => format!("{field} {value} from {} until {end}", self.start.0),
        }
    }
}

impl OverridesPage {
    /// The moving parts alone.
    pub fn fragment(&self) -> Result<String, askama::Error> {
        let parts = [self.as_strip().render()?, self.as_list().render()?];
        Ok(parts.join(crate::BETWEEN))
    }

    /// `1 override runs, 2 are ahead.`
    pub fn sentence(&self) -> String {
        let ahead = self.ahead.len();
        match self.running.len() {
            0 if ahead == 0 => "No override runs or is ahead.".to_owned(),
            running => format!(
                "{}: {running} running, {ahead} ahead.",
                text::plural(running.saturating_add(ahead), "override", "overrides")
            ),
        }
    }

    /// Those that can be ended, or given another end.
    pub fn open(&self) -> Vec<&OverrideRow> {
        let open = self.running.iter().chain(&self.ahead);
        open.filter(|row| row.cancelled_by.is_none()).collect()
    }

    /// Those that a second person has to agree to.
    pub fn proposed(&self) -> Vec<&OverrideRow> {
        let all = self.running.iter().chain(&self.ahead);
        all.filter(|row| row.is_proposed()).collect()
    }

    /// The lists with their titles and what an empty one means.
    pub fn lists(&self) -> [(&'static str, &'static str, &[OverrideRow]); 3] {
        [
            ("Running", "None runs.", &self.running),
            ("Ahead", "None is ahead.", &self.ahead),
            ("Over", "None has ended yet.", &self.ended),
        ]
    }
}
