//! The name of a flush, and whether it is known what became of the last one.
//!
//! Separate because of its one hard moment: a commit that was not answered. Rows add up, so a
//! flush that is sent twice counts twice. Nothing may be sent again before the database was asked
//! for the name of what it may hold already.

/// One flush, as it is noted in the transaction that stores its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flush {
    /// This process, since its history was opened.
    pub(crate) writer: String,
    /// When, in seconds since 1970, and which one. Notes are forgotten by their time.
    pub(crate) number: String,
}

/// The flushes of one process.
#[derive(Debug)]
pub(super) struct Flushes {
    writer: String,
    number: u64,
    /// Sent, and not answered.
    doubt: Option<Flush>,
}

impl Default for Flushes {
    fn default() -> Self {
        Self {
            writer: format!("flush/{}", uuid::Uuid::now_v7()),
            number: 0,
            doubt: None,
        }
    }
}

impl Flushes {
    /// The next one. It is in doubt until it is said what became of it.
    pub(super) fn begin(&mut self, now_s: i64) -> Flush {
        self.number = self.number.saturating_add(1);
        let flush = Flush {
            writer: self.writer.clone(),
            number: format!("{} {}", stamp(now_s), self.number),
        };
        self.doubt = Some(flush.clone());
        flush
    }

    /// What is in doubt.
    pub(super) fn doubt(&self) -> Option<Flush> {
        self.doubt.clone()
    }

    /// It is known what became of the last one.
    pub(super) fn settle(&mut self) {
        self.doubt = None;
    }
}

/// Seconds since 1970 in as many digits as it takes to compare them as text.
pub(crate) fn stamp(at_s: i64) -> String {
    format!("{:015}", at_s.max(0))
}
