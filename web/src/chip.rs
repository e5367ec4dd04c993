//! Links that narrow a list by one property, each with how many it leaves; links to other pages.
//!
//! Separate because lists look alike. It must never link to what was not asked for.

use crate::text;

/// One link of a row of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chip {
    /// Where it goes.
    pub href: String,
    /// The class of its word; empty: a plain word.
    pub class: &'static str,
    /// Its word.
    pub word: &'static str,
    /// How many it leaves.
    pub count: String,
    /// True for the view that is shown.
    pub current: bool,
}

impl Chip {
    pub(crate) fn new(
        href: String,
        class: &'static str,
        word: &'static str,
        count: usize,
        current: bool,
    ) -> Self {
        Self {
            href,
            class,
            word,
            count: text::count(count),
            current,
        }
    }
}
