//! Every statement of the history on Postgres.
//!
//! Separate so that a test prepares all of them. A statement that exists once for each width of
//! rows is written once; nothing but the names of the tables is put in.

use crate::history::Step;
use crate::store::statements::statements;

statements! {
    /// Slower than a change of a limit may be: an hour of many compartments is no small thing.
    SESSION = "SELECT set_config('statement_timeout', '60000', false), \
         set_config('lock_timeout', '5000', false), \
         set_config('idle_in_transaction_session_timeout', '60000', false)";
    /// What is lost with the server's last moments is missed on a chart and nowhere else.
    IN_PASSING = "SELECT set_config('synchronous_commit', 'off', false)";
    BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";
    COMMIT = "COMMIT";
    ROLLBACK = "ROLLBACK";
    /// Writers take turns, whichever process they are in: "BLKF".
    TURN = "SELECT pg_advisory_xact_lock(1112296262)";
    HEARD_BY_GATEWAY = "SELECT h.slot, g.name, h.covered_us, h.gateway_us, h.gateways \
         FROM bulkhead_history.heard_10s h \
         JOIN bulkhead_history.names g ON g.id = h.gateway \
         WHERE h.slot >= $1 AND h.slot < $2 ORDER BY h.slot";
    KNOWS = "SELECT 1 FROM bulkhead_history.names WHERE kind = 0 AND name = $1";
    ROLLED = "SELECT until FROM bulkhead_history.rolled WHERE seconds = $1";
    CHANGES = "SELECT at_ms, generation, before, after FROM bulkhead_history.limit_changes \
         WHERE key = $1 AND at_ms >= $2 AND at_ms < $3 ORDER BY at_ms DESC, generation DESC \
         LIMIT $4";
    NOTE = "SELECT value FROM bulkhead_history.meta WHERE key = $1";
    /// The tables and their indexes; then what rows take: their figures, and around each row its
    /// header, its numbers and its place in the index.
    SIZE = "SELECT (SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0)::bigint \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = 'bulkhead_history' AND c.relkind = 'r'), \
         (SELECT bytes + rows * 100 FROM bulkhead_history.used WHERE id = 1)";
    NAMES = "INSERT INTO bulkhead_history.names AS n (kind, name, seen) \
         SELECT * FROM UNNEST($1::bigint[], $2::text[], $3::bigint[]) \
         ON CONFLICT (kind, name) DO UPDATE SET seen = GREATEST(n.seen, excluded.seen) \
         RETURNING kind, name, id";
    ADD_HEARD = "INSERT INTO bulkhead_history.heard_10s AS h \
         (slot, gateway, covered_us, gateway_us, gateways) \
         SELECT slot, gateway, us, us, 1 \
         FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[]) AS w (slot, gateway, us) \
         ON CONFLICT (slot, gateway) DO UPDATE SET \
         covered_us = LEAST(h.covered_us + excluded.covered_us, 1000000000000), \
         gateway_us = LEAST(h.gateway_us + excluded.gateway_us, 1000000000000)";
    KNOWN = "SELECT f.slot, f.key, f.gateway, f.figures FROM bulkhead_history.figures_10s f \
         JOIN UNNEST($1::bigint[], $2::bigint[], $3::bigint[]) AS w (slot, key, gateway) \
         ON f.slot = w.slot AND f.key = w.key AND f.gateway = w.gateway";
    CHANGE = "UPDATE bulkhead_history.figures_10s f SET figures = w.figures \
         FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) \
         AS w (slot, key, gateway, figures) \
         WHERE f.slot = w.slot AND f.key = w.key AND f.gateway = w.gateway";
    LOWER_ROLLED = "UPDATE bulkhead_history.rolled SET until = LEAST(until, $1) \
         WHERE seconds = $2";
    SET_ROLLED = "UPDATE bulkhead_history.rolled SET until = $1 WHERE seconds = $2";
    USE = "UPDATE bulkhead_history.used SET rows = rows + $1, bytes = bytes + $2 WHERE id = 1";
    FORGET_NAMES = "DELETE FROM bulkhead_history.names WHERE kind = $1 AND seen < $2";
    FORGET_CHANGES = "DELETE FROM bulkhead_history.limit_changes WHERE at_ms < $1";
    FORGET_FLUSHES = "DELETE FROM bulkhead_history.meta \
         WHERE key LIKE 'flush/%' AND value < $1";
    ADD_CHANGES = "INSERT INTO bulkhead_history.limit_changes \
         (key, at_ms, generation, before, after) \
         SELECT * FROM UNNEST($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], \
         $5::bigint[]) ON CONFLICT DO NOTHING";
    PUT_NOTE = "INSERT INTO bulkhead_history.meta (key, value) VALUES ($1, $2) \
         ON CONFLICT (key) DO UPDATE SET value = excluded.value";
}

macro_rules! by_step {
    ($($name:ident, $front:literal, $back:literal;)+) => {
        $(pub(super) const fn $name(step: Step) -> &'static str {
            match step {
                Step::TenSeconds => concat!($front, "10s", $back),
                Step::Minute => concat!($front, "1m", $back),
                Step::Hour => concat!($front, "1h", $back),
            }
        })+

        /// Those for each width.
        #[cfg(test)]
        pub(in crate::store) const BY_STEP: &[(&str, fn(Step) -> &'static str)] =
            &[$((stringify!($name), $name)),+];
    };
}

by_step! {
    // The grid first: one search for each second of it, however many compartments have rows there.
    rows,
        "SELECT f.slot, g.name, f.figures FROM bulkhead_history.names k \
         CROSS JOIN generate_series($1::bigint, $3::bigint - 1, $2::bigint) AS grid (slot) \
         JOIN bulkhead_history.figures_",
        " f ON f.slot = grid.slot AND f.key = k.id \
         LEFT JOIN bulkhead_history.names g ON g.id = f.gateway \
         WHERE k.kind = 0 AND k.name = $4 ORDER BY f.slot";
    heard,
        "SELECT slot, MAX(covered_us), SUM(gateway_us)::bigint, SUM(gateways)::bigint \
         FROM bulkhead_history.heard_",
        " WHERE slot >= $1 AND slot < $2 GROUP BY slot ORDER BY slot";
    kept, "SELECT MIN(slot), MAX(slot) FROM bulkhead_history.heard_", "";
    next_heard, "SELECT MIN(slot) FROM bulkhead_history.heard_", " WHERE slot >= $1";
    source,
        "SELECT key, slot, figures FROM bulkhead_history.figures_",
        " WHERE slot >= $1 AND slot < $2 ORDER BY key, slot";
    first_figures, "SELECT MIN(slot) FROM bulkhead_history.figures_", "";
    sum_heard,
        "SELECT SUM(c)::bigint, SUM(g)::bigint, MAX(n) FROM (SELECT MAX(covered_us) c, \
         SUM(gateway_us) g, SUM(gateways)::bigint n FROM bulkhead_history.heard_",
        " WHERE slot >= $1 AND slot < $2 GROUP BY slot) AS slots";
    insert,
        "INSERT INTO bulkhead_history.figures_",
        " (slot, key, gateway, figures) \
         SELECT * FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])";
    insert_heard,
        "INSERT INTO bulkhead_history.heard_",
        " (slot, gateway, covered_us, gateway_us, gateways) VALUES ($1, 0, $2, $3, $4)";
    clear_figures,
        "WITH gone AS (DELETE FROM bulkhead_history.figures_",
        " WHERE slot >= $1 AND slot < $2 RETURNING octet_length(figures) AS bytes) \
         SELECT COUNT(*), COALESCE(SUM(bytes), 0)::bigint FROM gone";
    clear_heard, "DELETE FROM bulkhead_history.heard_", " WHERE slot >= $1 AND slot < $2";
}
