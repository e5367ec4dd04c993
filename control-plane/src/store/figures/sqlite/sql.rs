//! The statements that exist once for each width of rows.
//!
//! Separate because they are text: one place where the names of the tables are put in. It must
//! never put in anything but those.

use crate::history::Step;

macro_rules! by_step {
    ($name:ident, $front:literal, $back:literal) => {
        pub(super) const fn $name(step: Step) -> &'static str {
            match step {
                Step::TenSeconds => concat!($front, "10s", $back),
                Step::Minute => concat!($front, "1m", $back),
                Step::Hour => concat!($front, "1h", $back),
            }
        }
    };
}

// The grid first (`CROSS JOIN` keeps that order): one search for each second of it, however many
// compartments have rows there.
by_step!(
    rows,
    "WITH RECURSIVE grid (slot) AS (SELECT ?1 UNION ALL SELECT slot + ?2 FROM grid \
     WHERE slot + ?2 < ?3) \
     SELECT f.slot, g.name, f.figures FROM names k CROSS JOIN grid CROSS JOIN figures_",
    " f ON f.slot = grid.slot AND f.key = k.id LEFT JOIN names g ON g.id = f.gateway \
     WHERE k.kind = 0 AND k.name = ?4 ORDER BY f.slot"
);
by_step!(
    heard,
    "SELECT slot, MAX(covered_us), SUM(gateway_us), SUM(gateways) FROM heard_",
    " WHERE slot >= ? AND slot < ? GROUP BY slot ORDER BY slot"
);
by_step!(kept, "SELECT MIN(slot), MAX(slot) FROM heard_", "");
by_step!(
    insert,
    "INSERT INTO figures_",
    " (slot, key, gateway, figures) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
);
by_step!(
    next_heard,
    "SELECT MIN(slot) FROM heard_",
    " WHERE slot >= ?"
);
by_step!(
    source,
    "SELECT key, slot, figures FROM figures_",
    " WHERE slot >= ? AND slot < ? ORDER BY key, slot"
);
by_step!(
    clear_figures,
    "DELETE FROM figures_",
    " WHERE slot >= ? AND slot < ?"
);
by_step!(
    clear_heard,
    "DELETE FROM heard_",
    " WHERE slot >= ? AND slot < ?"
);
by_step!(first_figures, "SELECT MIN(slot) FROM figures_", "");
by_step!(
    sum_heard,
    "SELECT SUM(c), SUM(g), MAX(n) FROM (SELECT MAX(covered_us) c, SUM(gateway_us) g, \
     SUM(gateways) n FROM heard_",
    " WHERE slot >= ? AND slot < ? GROUP BY slot)"
);
by_step!(
    insert_heard,
    "INSERT INTO heard_",
    " (slot, gateway, covered_us, gateway_us, gateways) VALUES (?, 0, ?, ?, ?)"
);

pub(super) const HEARD_BY_GATEWAY: &str = "SELECT h.slot, g.name, h.covered_us, h.gateway_us, \
     h.gateways FROM heard_10s h JOIN names g ON g.id = h.gateway \
     WHERE h.slot >= ? AND h.slot < ? ORDER BY h.slot";
pub(super) const ADD_HEARD: &str = "INSERT INTO heard_10s \
     (slot, gateway, covered_us, gateway_us, gateways) VALUES (?1, ?2, ?3, ?3, 1) \
     ON CONFLICT (slot, gateway) DO UPDATE SET \
     covered_us = MIN(covered_us + excluded.covered_us, 1000000000000), \
     gateway_us = MIN(gateway_us + excluded.gateway_us, 1000000000000)";
pub(super) const NAME: &str = "INSERT INTO names (kind, name, seen) VALUES (?, ?, ?) \
     ON CONFLICT (kind, name) DO UPDATE SET seen = MAX(seen, excluded.seen) RETURNING id";
pub(super) const LOWER_ROLLED: &str = "UPDATE rolled SET until = MIN(until, ?) WHERE seconds = ?";
