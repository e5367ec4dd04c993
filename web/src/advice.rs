//! The Advice page: which limit the traffic asks for, and why; what another would do.
//!
//! Separate page by page. It decides no number: cards and answers come worked out, the same that
//! the API gives. It must never show an advised limit without what it rests on.

use askama::Template;

use crate::{AdviceCard, Chip, Frame, Moment, Pager, text, url};

/// The most cards of one page.
pub const CARDS_MAX: usize = 25;
/// The most findings that are listed.
pub const FINDINGS_MAX: usize = 50;

/// The Advice page.
#[derive(Debug, Clone, Template)]
#[template(path = "advice.html", blocks = ["strip", "cards"])]
pub struct AdvicePage {
    /// What stands around it.
    pub frame: Frame,
    /// What the address asks for.
    pub view: AdviceView,
    /// When the cards were worked out; `None`: not yet.
    pub worked_out: Option<Moment>,
    /// The advised limits of the routes together against the capacity, and whether they fit.
    pub sum: Option<(String, bool)>,
    /// This page of the cards.
    pub cards: Vec<AdviceRow>,
    /// How many belong to the view.
    pub matching: usize,
    /// How many there are of each kind, all of them together.
    pub kinds: Vec<(Advised, usize)>,
    /// What the rules say.
    pub findings: Vec<FoundRow>,
    /// How many more they say.
    pub findings_more: usize,
    /// The form that asks what another limit would do, and its answer.
    pub ask: Ask,
}

/// What the address asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdviceView {
    /// Only this kind.
    pub kind: Option<Advised>,
    /// Only this compartment.
    pub key: String,
    /// Which page, from 1.
    pub page: usize,
}

/// What to do with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Advised {
    /// It is too small.
    Raise,
    /// It is larger than needed.
    Lower,
    /// Most of what was measured was an incident.
    Unsettled,
    /// It is right.
    Keep,
    /// Not enough was measured.
    TooLittle,
}

impl Advised {
    /// What needs a hand first.
    pub const ALL: [Self; 5] = [
        Self::Raise,
        Self::Lower,
        Self::Unsettled,
        Self::Keep,
        Self::TooLittle,
    ];

    /// The value in the address, and the class in the style sheet.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raise => "raise",
            Self::Lower => "lower",
            Self::Unsettled => "unsettled",
            Self::Keep => "keep",
            Self::TooLittle => "too-little",
        }
    }

    /// On the page.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Raise => "raise",
            Self::Lower => "lower",
            Self::Unsettled => "no advice",
            Self::Keep => "keep",
            Self::TooLittle => "too little evidence",
        }
    }

    /// The class of its word.
    pub const fn state(self) -> &'static str {
        match self {
            Self::Raise => "full",
            Self::Lower => "nearly",
            Self::Unsettled => "watch",
            Self::Keep => "busy",
            Self::TooLittle => "idle",
        }
    }
}

/// The advice for one compartment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdviceRow {
    /// Which.
    pub key: String,
    /// What to do.
    pub kind: Advised,
    /// The limit in force, as text.
    pub now: String,
    /// The limit that the traffic asks for; `None` without enough evidence.
    pub advised: Option<u32>,
    /// `critical`, `standard` or `sheddable`.
    pub class: &'static str,
    /// `low`, `provisional` or `final`.
    pub confidence: &'static str,
    /// Arithmetic and evidence.
    pub card: AdviceCard,
}

impl AdviceRow {
    /// The page of the compartment, where a limit is changed.
    pub fn href(&self) -> String {
        url::compartment(&self.key)
    }

    /// The question what the advised limit would do, or the one in force.
    pub fn question(&self) -> String {
        let limit = self
            .advised
            .map_or(self.now.clone(), |slots| slots.to_string());
        let pairs = [("key", self.key.as_str()), ("limit", limit.as_str())];
        format!("{}#ask", url::with_query("/advice", &pairs))
    }
}

/// One finding of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRow {
    /// Which rule.
    pub rule: &'static str,
    /// `error`, `warn` or `info`.
    pub severity: &'static str,
    /// Where in the policy.
    pub path: String,
    /// The arithmetic.
    pub message: String,
    /// Whether measured traffic says it, and not the policy alone.
    pub measured: bool,
}

/// The question what another limit would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ask {
    /// Where the form goes: the page that it stands on.
    pub action: String,
    /// The compartment; typed in unless the page is its own.
    pub key: String,
    /// True where the page itself says which compartment.
    pub fixed: bool,
    /// The limit as it was typed.
    pub limit: String,
    /// Why there is no answer.
    pub error: Option<String>,
    /// What it would do.
    pub answer: Option<Answered>,
}

/// What another limit would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answered {
    /// In one sentence.
    pub summary: String,
    /// Whether it meets the target of its class; `None` without evidence.
    pub meets: Option<bool>,
    /// Figure by figure: what, for that limit, for the one in force.
    pub figures: Vec<(&'static str, String, String)>,
    /// The arithmetic.
    pub because: Vec<String>,
}

impl Ask {
    /// The compartment as a word of a command.
    pub fn shell_key(&self) -> String {
        text::shell(&self.key)
    }

    /// The limit as a word of a command.
    pub fn shell_limit(&self) -> String {
        text::shell(&self.limit)
    }
}

impl AdviceView {
    /// From the values of the query; what is not understood does not filter.
    pub fn parse(kind: &str, key: &str, page: &str) -> Self {
        let mut kinds = Advised::ALL.into_iter();
        Self {
            kind: kinds.find(|known| known.as_str() == kind),
            key: key.chars().take(400).collect(),
            page: page.parse().unwrap_or(1).max(1),
        }
    }

    /// The address of this view.
    pub fn href(&self) -> String {
        let page = if self.page > 1 {
            self.page.to_string()
        } else {
            String::new()
        };
        let kind = self.kind.map_or("", Advised::as_str);
        url::with_query(
            "/advice",
            &[("kind", kind), ("key", &self.key), ("page", &page)],
        )
    }

    /// The same with another page of it.
    pub fn page(&self, page: usize) -> String {
        let view = Self {
            page,
            ..self.clone()
        };
        view.href()
    }

    /// Cards of this kind, of every compartment.
    pub fn of_kind(kind: Option<Advised>) -> String {
        let view = Self {
            kind,
            ..Self::default()
        };
        view.href()
    }

    /// This page of the cards of the view, and how many there are; `about` tells of each what to
    /// do and of which compartment it is.
    pub fn chosen<'a, T>(
        &mut self,
        mut cards: Vec<&'a T>,
        about: impl Fn(&'a T) -> (Advised, &'a str),
    ) -> (Vec<&'a T>, usize) {
        cards.retain(|card| {
            let (kind, key) = about(*card);
            self.kind.is_none_or(|wanted| wanted == kind)
                && (self.key.is_empty() || self.key == key)
        });
        cards.sort_by_key(|card| about(*card));
        let matching = cards.len();
        let place = self.place(matching).within();
        self.page = place.page;
        (place.cut(cards), matching)
    }

    fn place(&self, matching: usize) -> Pager {
        Pager {
            page: self.page,
            rows_max: CARDS_MAX,
            matching,
        }
    }
}

impl AdvicePage {
    /// The parts that a live page replaces.
    pub fn fragment(&self) -> askama::Result<String> {
        let parts = [self.as_strip().render()?, self.as_cards().render()?];
        Ok(parts.join(crate::BETWEEN))
    }

    /// All, and each kind that there is.
    pub fn chips(&self) -> Vec<Chip> {
        let all: usize = self.kinds.iter().map(|(_, n)| n).sum();
        let shown = (&self.view.kind, self.view.key.is_empty());
        let first = Chip::new(
            AdviceView::of_kind(None),
            "",
            "all",
            all,
            shown == (&None, true),
        );
        let kinds = self.kinds.iter().filter(|(_, n)| *n > 0);
        let kinds = kinds.map(|(kind, n)| {
            let current = self.view.kind == Some(*kind);
            let href = AdviceView::of_kind(Some(*kind));
            Chip::new(href, kind.state(), kind.words(), *n, current)
        });
        std::iter::once(first).chain(kinds).collect()
    }

    /// Which cards these are, and the addresses of those before and after.
    pub fn pager(&self) -> (String, Option<String>, Option<String>) {
        let place = self.view.place(self.matching);
        place.links(("compartment", "compartments"), |page| self.view.page(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_hand_comes_first_and_a_page_is_bounded() {
        let kinds = Advised::ALL.into_iter().rev().cycle();
        let one = |(n, kind)| (kind, format!("route/r{n:03}"));
        let all: Vec<(Advised, String)> = (0..60).zip(kinds).map(one).collect();
        let chosen = |view: &mut AdviceView| {
            let (shown, matching) = view.chosen(all.iter().collect(), |(kind, key)| (*kind, key));
            (shown.len(), matching, shown.first().map(|(kind, _)| *kind))
        };
        let mut view = AdviceView::parse("", "", "2");
        assert_eq!(chosen(&mut view), (CARDS_MAX, 60, Some(Advised::Unsettled)));
        assert_eq!(view.page, 2);
        let mut first = AdviceView::parse("", "", "0");
        assert_eq!(chosen(&mut first).2, Some(Advised::Raise));
        let mut far = AdviceView::parse("raise", "", "99");
        assert_eq!(chosen(&mut far), (12, 12, Some(Advised::Raise)));
        assert_eq!(far.href(), "/advice?kind=raise");
        let mut one = AdviceView::parse("nonsense", "route/r003", "");
        assert_eq!(chosen(&mut one).1, 1);
        assert_eq!(one.href(), "/advice?key=route%2Fr003");
    }
}
