//! The Changes pages: what is on its way, what came of it, and every generation there was.
//!
//! Separate page by page. What a change would do is told by others and shown here. It must never
//! offer a step that cannot follow, nor hide one for want of a right: it says which role it needs.

use askama::Template;

use crate::{Frame, Moment, Role, text, url};

/// The most changes on the page.
pub const CHANGE_LINES_MAX: usize = 100;
/// The most generations beside them.
pub const GENERATION_LINES_MAX: usize = 50;
/// The most differences of one change on its page.
pub const DIFFERENCE_LINES_MAX: usize = 200;

/// The list.
#[derive(Debug, Clone, Template)]
#[template(path = "changes.html", blocks = ["strip", "list"])]
pub struct ChangesPage {
    /// What stands around it.
    pub frame: Frame,
    /// A second person is asked for.
    pub needs_second: bool,
    /// Only those in this state; empty: all.
    pub state: String,
    /// The changes, newest first.
    pub lines: Vec<ChangeLine>,
    /// The number below which older ones are.
    pub older: Option<u64>,
    /// Generations, newest first.
    pub generations: Vec<GenerationLine>,
    /// The store did not answer.
    pub store_silent: bool,
}

/// One change in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeLine {
    /// Its number.
    pub number: u64,
    /// Its state, in one word.
    pub state: &'static str,
    /// Who proposed it.
    pub author: String,
    /// When.
    pub at: Moment,
    /// Why.
    pub comment: String,
    /// What it touches.
    pub keys: Vec<String>,
    /// The generation that it became.
    pub published: Option<u64>,
}

/// One generation in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationLine {
    /// Its number.
    pub number: u64,
    /// Who made it.
    pub author: String,
    /// Why.
    pub comment: String,
    /// When.
    pub at: Moment,
    /// Through which door.
    pub source: String,
}

impl ChangeLine {
    /// The address of its page.
    pub fn href(&self) -> String {
        url::change(self.number)
    }

    /// The class of its state.
    pub fn class(&self) -> &'static str {
        class_of(self.state)
    }

    /// `route/a, route/b and 3 more`.
    pub fn touches(&self) -> String {
        let named: Vec<_> = self.keys.iter().take(3).map(String::as_str).collect();
        match self.keys.len().saturating_sub(3) {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    }
}

/// The class of a state in the style sheet.
fn class_of(state: &str) -> &'static str {
    match state {
        "draft" => "idle",
        "approved" => "watch",
        "staged" | "published" => "nearly",
        "kept" => "busy",
        "reverted" => "closed",
        _ => "gone",
    }
}

impl ChangesPage {
    /// The states that can be asked for.
    pub const STATES: [&'static str; 7] = [
        "draft",
        "approved",
        "staged",
        "published",
        "kept",
        "reverted",
        "abandoned",
    ];

    /// The moving parts alone.
    pub fn fragment(&self) -> Result<String, askama::Error> {
        let parts = [self.as_strip().render()?, self.as_list().render()?];
        Ok(parts.join(crate::BETWEEN))
    }

    /// How many wait for somebody.
    pub fn open(&self) -> usize {
        let open = |line: &&ChangeLine| matches!(line.state, "draft" | "approved" | "staged");
        self.lines.iter().filter(open).count()
    }

    /// `2 changes wait for a step`.
    pub fn sentence(&self) -> String {
        match self.open() {
            0 => "No change is on its way.".to_owned(),
            1 => "1 change is on its way.".to_owned(),
            n => format!("{n} changes are on their way."),
        }
    }
}

/// One change.
#[derive(Debug, Clone, Template)]
#[template(path = "change.html", blocks = ["strip", "state", "gateways"])]
pub struct ChangePage {
    /// What stands around it.
    pub frame: Frame,
    /// What it is.
    pub line: ChangeLine,
    /// What the page showed: a step on another version is refused.
    pub version: u64,
    /// The generation that it was made on.
    pub base: u64,
    /// A second person has to agree first.
    pub needs_approval: bool,
    /// Who wrote it.
    pub contributors: Vec<String>,
    /// The reader is one of them.
    pub is_own: bool,
    /// Who agreed, when, and what was said.
    pub approvals: Vec<(String, Moment, String)>,
    /// Where it is, or was, staged, and as which generation.
    pub staged: Option<(String, u64)>,
    /// The generation that took it back.
    pub reverted: Option<u64>,
    /// Goes by itself in so many seconds.
    pub reverts_in_s: Option<u64>,
    /// What its guard watches, in words.
    pub guard: Option<String>,
    /// Path, what stood there, what is to stand there.
    pub differences: Vec<DifferenceLine>,
    /// How many more differ.
    pub more: usize,
    /// What others changed, too.
    pub clashes: Vec<ClashLine>,
    /// What makes it dangerous.
    pub dangers: Vec<String>,
    /// Rules that the policy would break with it.
    pub faults: Vec<String>,
    /// What the linter says.
    pub findings: Vec<String>,
    /// What its limits would do: compartment and arithmetic.
    pub effects: Vec<(String, Vec<String>)>,
    /// What gateways made of it: name, answer, generation, reason.
    pub gateways: Vec<(String, &'static str, u64, String)>,
    /// Before and after.
    pub compared: Vec<ComparedLine>,
    /// Everything that was done: when, what, who, why.
    pub steps: Vec<(Moment, String, String, String)>,
    /// Gateways that it may be staged on.
    pub connected: Vec<String>,
    /// Why the last step was not taken.
    pub refused: Option<String>,
    /// What was typed.
    pub typed: TypedStep,
}

/// What a form of the page held when it was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypedStep {
    /// Why.
    pub comment: String,
    /// The confirmation.
    pub confirm: String,
}

/// One value that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferenceLine {
    /// Where.
    pub path: String,
    /// Of which compartment, where it is of one.
    pub key: Option<String>,
    /// What stood there.
    pub old: Option<String>,
    /// What is to stand there.
    pub new: Option<String>,
}

/// One value that two people changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClashLine {
    /// Where.
    pub path: String,
    /// What stood there when the change was made.
    pub base: String,
    /// What the change says.
    pub mine: String,
    /// What somebody else made it.
    pub theirs: String,
}

/// One compartment before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedLine {
    /// Which.
    pub key: String,
    /// In the 15 minutes before.
    pub before: SumLine,
    /// In those after.
    pub after: SumLine,
}

/// What happened in so long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SumLine {
    /// Seconds that anybody was heard of in; 0: nobody knows.
    pub heard_s: u64,
    /// Arrivals.
    pub arrived: u64,
    /// Refusals.
    pub refused: u64,
    /// The most in flight at once.
    pub peak: u64,
}

impl SumLine {
    /// `1.2 %`, or that nobody knows.
    pub fn share(&self) -> String {
        match (self.heard_s, self.arrived) {
            (0, _) => "not known".to_owned(),
            (_, 0) => "no calls".to_owned(),
            (_, arrived) => text::percent(self.refused, arrived),
        }
    }

    /// `1,200`, or a dash where nobody knows.
    pub fn count(&self, number: impl text::Whole) -> String {
        match self.heard_s {
            0 => "–".to_owned(),
            _ => text::count(number),
        }
    }
}

impl ChangePage {
    /// The moving parts alone.
    pub fn fragment(&self) -> Result<String, askama::Error> {
        let parts = [
            self.as_strip().render()?,
            self.as_state().render()?,
            self.as_gateways().render()?,
        ];
        Ok(parts.join(crate::BETWEEN))
    }

    /// What has to be typed before a dangerous one is published.
    pub fn name(&self) -> String {
        format!("change-{}", self.line.number)
    }

    /// True while it may still come.
    pub fn is_open(&self) -> bool {
        matches!(self.line.state, "draft" | "approved" | "staged")
    }

    /// True while it may be edited, and staged.
    pub fn is_draft(&self) -> bool {
        matches!(self.line.state, "draft" | "approved")
    }

    /// True while somebody may keep it.
    pub fn is_watched(&self) -> bool {
        self.line.state == "published"
    }

    /// True when it can be taken back.
    pub fn can_revert(&self) -> bool {
        matches!(self.line.state, "published" | "kept")
    }

    /// True when the reader may agree to it.
    pub fn may_approve(&self) -> bool {
        self.frame.reader.role >= Role::Approver && !self.is_own
    }

    /// Why the reader may not.
    pub fn why_not_approve(&self) -> &'static str {
        match self.is_own {
            true => "You wrote it, or a part of it: only another person can approve it.",
            false => "Needs the role approver.",
        }
    }

    /// `in 4:59`.
    pub fn reverts_in(&self) -> Option<String> {
        self.reverts_in_s.map(text::countdown)
    }

    /// Others published since it was made.
    pub fn is_behind(&self) -> bool {
        self.is_draft() && self.base < self.frame.generation
    }
}

/// One generation: what it changed, and the way back to it.
#[derive(Debug, Clone, Template)]
#[template(path = "generation.html", blocks = ["strip"])]
pub struct GenerationPage {
    /// What stands around it.
    pub frame: Frame,
    /// What it is.
    pub line: GenerationLine,
    /// The one before, that it is compared with.
    pub against: u64,
    /// What differs.
    pub differences: Vec<DifferenceLine>,
    /// How many more.
    pub more: usize,
    /// The way back to it would change so many values of the policy in force.
    pub away: usize,
}
