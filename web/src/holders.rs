//! Who holds the slots of one compartment, and what of the spare is out.
//!
//! Separate because it puts several compartments side by side: tenants of a route, routes of a
//! tenant, of an upstream, of the process. It must never leave out who holds most.

use compartment::{Key, Level};

use crate::{Reading, reason, text, url};

/// The most rows of the table.
pub const HOLDERS_MAX: usize = 20;

/// Who holds what of one compartment.
#[derive(Debug, Clone, Default)]
pub struct Holders {
    /// What the rows are: `tenant` or `route`.
    pub kind: &'static str,
    /// Those with most in flight first, then those who were refused most.
    pub rows: Vec<Holder>,
    /// How many more there are.
    pub more: usize,
}

/// One of them.
#[derive(Debug, Clone)]
pub struct Holder {
    /// As the column says.
    pub name: String,
    /// Its own compartment here.
    pub reading: Reading,
}

/// The spare slots that every route borrows from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpareUse {
    /// All of them, over the gateways that report.
    pub slots: u64,
    /// Borrowed by calls.
    pub borrowed: u64,
    /// Held by streams.
    pub streams: u64,
}

impl Holders {
    /// Chooses the rows.
    pub fn new(kind: &'static str, readings: Vec<Reading>) -> Self {
        let mut rows: Vec<Holder> = readings
            .into_iter()
            .map(|reading| Holder {
                name: Self::name_of(kind, &reading.key),
                reading,
            })
            .collect();
        let rank = |one: &Holder| {
            let refused = one.reading.rejected_all();
            std::cmp::Reverse((one.reading.in_flight, refused, one.reading.shadow_all()))
        };
        rows.sort_by(|one, other| {
            let by_name = || one.reading.key.cmp(&other.reading.key);
            rank(one).cmp(&rank(other)).then_with(by_name)
        });
        let more = rows.len().saturating_sub(HOLDERS_MAX);
        rows.truncate(HOLDERS_MAX);
        Self { kind, rows, more }
    }

    /// The part of a key that the rows of this kind differ in.
    pub fn name_of(kind: &str, key: &str) -> String {
        match key.parse::<Key>() {
            Ok(Key::TenantRoute(_, tenant)) if kind == "tenant" => tenant.to_string(),
            Ok(Key::TenantRoute(route, _) | Key::Route(route)) => route.to_string(),
            Ok(Key::Stream(route)) => format!("{route}, streams"),
            Ok(Key::Fallback(route)) => format!("{route}, fallback"),
            Ok(Key::Gateway | Key::Upstream(_) | Key::Tenant(_)) => key.to_owned(),
            // `route/ID/tenant/_idle`: tenants that left, folded together.
            Err(_) => match key.rsplit_once('/') {
                Some((_, "_idle")) => "tenants that left".to_owned(),
                Some((_, last)) => last.to_owned(),
                None => key.to_owned(),
            },
        }
    }

    /// True when one of them borrows.
    pub fn borrows(&self) -> bool {
        self.kind == "route"
    }
}

impl Holder {
    /// The page of its compartment.
    pub fn href(&self) -> String {
        url::compartment(&self.reading.key)
    }

    /// What was refused, by reason; what would have been, in shadow.
    pub fn refused(&self) -> String {
        let words = reason::in_words(&self.reading.rejected);
        match (words.is_empty(), self.reading.shadow_all()) {
            (true, 0) => "none".to_owned(),
            (false, 0) => words,
            (true, n) => format!("{} in shadow", text::count(n)),
            (false, n) => format!("{words}, {} in shadow", text::count(n)),
        }
    }
}

impl SpareUse {
    /// From the readings of every route and stream.
    pub fn of<'a>(slots: u64, readings: impl IntoIterator<Item = &'a Reading>) -> Self {
        let mut spare = Self {
            slots,
            ..Self::default()
        };
        for reading in readings {
            if reading.level == Level::Stream {
                spare.streams = spare.streams.saturating_add(reading.in_flight);
            } else {
                spare.borrowed = spare.borrowed.saturating_add(reading.borrowed);
            }
        }
        spare
    }

    /// Not out.
    pub fn free(&self) -> u64 {
        let used = self.borrowed.saturating_add(self.streams);
        self.slots.saturating_sub(used)
    }

    /// `12 of 40 spare slots free; 20 borrowed by calls, 8 held by streams`.
    pub fn sentence(&self) -> String {
        format!(
            "{} of {} free; {} borrowed by calls, {} held by streams",
            text::count(self.free()),
            text::plural(self.slots, "spare slot", "spare slots"),
            text::count(self.borrowed),
            text::count(self.streams)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::figures;
    use crate::{Look, Reading};

    fn read(all: &[compartment::Figures]) -> Vec<Reading> {
        Reading::sum([Look {
            now: all,
            earlier: None,
        }])
    }

    #[test]
    fn who_holds_most_is_never_left_out() {
        let all: Vec<_> = (0..50_u32)
            .map(|n| {
                let key = format!("route/a/tenant/t{n:02}");
                figures(&key, Level::TenantRoute, n % 7, 9, 10)
            })
            .collect();
        let holders = Holders::new("tenant", read(&all));
        assert_eq!((holders.rows.len(), holders.more), (HOLDERS_MAX, 30));
        assert_eq!(holders.rows[0].name, "t06");
        assert!(holders.rows.iter().all(|row| row.reading.in_flight >= 4));
    }

    #[test]
    fn streams_and_calls_share_the_spare() {
        let mut call = figures("route/a", Level::Route, 12, 12, 20);
        call.borrowed = 3;
        let stream = figures("route/a/stream", Level::Stream, 5, 5, 10);
        let readings = read(&[call, stream]);
        let spare = SpareUse::of(10, &readings);
        assert_eq!((spare.borrowed, spare.streams, spare.free()), (3, 5, 2));
        assert_eq!(
            SpareUse::of(4, &readings).free(),
            0,
            "it may have been lowered"
        );
        let names: Vec<_> = Holders::new("route", readings).rows;
        let names: Vec<_> = names.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["a", "a, streams"]);
    }
}
