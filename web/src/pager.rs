//! Which page of many rows this is, and where the pages before and after are.
//!
//! Separate because every long list is cut the same way. It must never show a page that has no row
//! while another one has.

use crate::text;

/// One page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pager {
    /// Which, from 1.
    pub page: usize,
    /// Rows of a full page.
    pub rows_max: usize,
    /// Rows of all pages.
    pub matching: usize,
}

impl Pager {
    /// The last page where there are not so many.
    #[must_use]
    pub fn within(mut self) -> Self {
        self.page = self.page.clamp(1, self.pages().max(1));
        self
    }

    /// The rows of this page, of all rows.
    pub fn cut<T>(self, all: Vec<T>) -> Vec<T> {
        let rows = all.into_iter().skip(self.skipped());
        rows.take(self.rows_max).collect()
    }

    fn pages(self) -> usize {
        self.matching.div_ceil(self.rows_max.max(1))
    }

    /// Rows of the pages before.
    pub fn skipped(self) -> usize {
        self.page.saturating_sub(1).saturating_mul(self.rows_max)
    }

    /// `51 to 100 of 1,003 compartments`, and the addresses of the pages before and after.
    pub(crate) fn links(
        self,
        (one, many): (&str, &str),
        href: impl Fn(usize) -> String,
    ) -> (String, Option<String>, Option<String>) {
        let before = (self.page > 1).then(|| href(self.page - 1));
        let after = (self.page < self.pages()).then(|| href(self.page + 1));
        (self.range(one, many), before, after)
    }

    fn range(self, one: &str, many: &str) -> String {
        let all = text::plural(self.matching, one, many);
        let last = self
            .skipped()
            .saturating_add(self.rows_max)
            .min(self.matching);
        match self.matching {
            0 => "None".to_owned(),
            n if n <= self.rows_max => all,
            _ => {
                let first = text::count(self.skipped().saturating_add(1));
                format!("{first} to {} of {all}", text::count(last))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_its_rows_and_its_neighbours() {
        for (page, matching, words, before, after) in [
            (1, 0, "None", false, false),
            (9, 1, "1 row", false, false),
            (1, 50, "50 rows", false, false),
            (1, 51, "1 to 50 of 51 rows", false, true),
            (2, 51, "51 to 51 of 51 rows", true, false),
            (3, 1_003, "101 to 150 of 1,003 rows", true, true),
            (99, 1_003, "1,001 to 1,003 of 1,003 rows", true, false),
        ] {
            let pager = Pager {
                page,
                rows_max: 50,
                matching,
            };
            let links = pager
                .within()
                .links(("row", "rows"), |page| page.to_string());
            let said = links.0.replace('\u{a0}', " ");
            assert_eq!(
                (said.as_str(), links.1.is_some(), links.2.is_some()),
                (words, before, after)
            );
        }
    }
}
