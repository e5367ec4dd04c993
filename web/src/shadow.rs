//! The page of limits that are watched and not enforced yet.
//!
//! Separate page by page. The figures are live and the forms are not. It must never enforce a
//! limit by itself: that takes a form.

use askama::Template;

use crate::{Frame, Watch, Watched, text};

/// The most watched limits on the page.
pub const WATCHES_MAX: usize = 100;

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "shadow.html", blocks = ["strip"])]
pub struct ShadowPage {
    /// What stands around it.
    pub frame: Frame,
    /// The limits that are watched.
    pub watches: Vec<Watch>,
    /// How many more there are.
    pub more: usize,
    /// Routes that enforce their limit.
    pub enforcing: usize,
    /// Routes that judge nothing: their keys.
    pub off: Vec<String>,
}

/// The live parts of the page.
#[derive(Debug, Template)]
#[template(path = "watches.html")]
struct Live<'a> {
    frame: &'a Frame,
    watches: &'a [Watch],
}

impl ShadowPage {
    /// The parts that a live page replaces.
    pub fn fragment(&self) -> askama::Result<String> {
        let live = Live {
            frame: &self.frame,
            watches: &self.watches,
        };
        Ok([self.as_strip().render()?, live.render()?].join(crate::BETWEEN))
    }

    /// The newest generation, for the forms.
    pub fn generation(&self) -> u64 {
        self.frame.generation
    }

    /// The sentence at the top.
    pub fn summary(&self) -> String {
        let of = |wanted| self.watches.iter().filter(|w| w.watched == wanted).count();
        let (shadow, candidates) = (of(Watched::Shadow), of(Watched::Candidate));
        if shadow + candidates == 0 {
            return "No limit is in shadow.".to_owned();
        }
        let shadow = match shadow {
            0 => None,
            n => Some(format!("{} in shadow", text::plural(n, "route", "routes"))),
        };
        let beside = match candidates {
            0 => None,
            n => Some(text::plural(n, "candidate", "candidates")),
        };
        let watched: Vec<String> = shadow.into_iter().chain(beside).collect();
        let enforcing = text::plural(self.enforcing, "route enforces its", "routes enforce their");
        format!("{}; {enforcing} limit.", watched.join(", "))
    }
}
