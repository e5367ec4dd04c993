//! Every statement of the store on SQLite.
//!
//! Separate so that a test prepares all of them. The same names as for Postgres.

use crate::store::statements::statements;

statements! {
    BEGIN = "BEGIN IMMEDIATE";
    COMMIT = "COMMIT";
    ROLLBACK = "ROLLBACK";
    EPOCH = "SELECT value FROM meta WHERE key = 'epoch'";
    MAKE_EPOCH = "INSERT INTO meta (key, value) VALUES ('epoch', ?) ON CONFLICT DO NOTHING";
    /// What goes to one gateway alone is not the newest.
    NEWEST = "SELECT COALESCE(MAX(number), 0) FROM generations WHERE source <> 'stage'";
    LAST = "SELECT COALESCE(MAX(number), 0) FROM generations";
    NEWEST_BEFORE = "SELECT COALESCE(MAX(number), 0) FROM generations \
         WHERE source <> 'stage' AND number < ?";
    /// The length stands in the head of the row: the document is not read for it.
    GENERATION = "SELECT number, digest, author, comment, source, created_at, \
         octet_length(document) > 0, document \
         FROM generations WHERE number = ?";
    GENERATIONS = "SELECT number, digest, author, comment, source, created_at, \
         octet_length(document) > 0 \
         FROM generations WHERE number < ? ORDER BY number DESC LIMIT ?";
    /// What is still sent somewhere, or what a change on its way refers to, stays.
    FORGET_DOCUMENTS = "WITH wanted AS MATERIALIZED (SELECT staged, published, reverted, \
         json_extract(body, '$.base') AS base, \
         json_extract(body, '$.before') AS before, \
         json_extract(body, '$.staged_on') AS staged_on \
         FROM changes WHERE state IN ('draft', 'approved', 'staged') \
         OR (state = 'published' AND due_ms IS NOT NULL)) \
         UPDATE generations SET document = '' WHERE number IN \
         (SELECT g.number FROM generations g WHERE octet_length(g.document) > 0 \
         AND g.number <= (SELECT MAX(number) FROM generations) - ?1 \
         AND g.number < (SELECT MAX(number) FROM generations WHERE source <> 'stage') \
         AND g.created_at < ?2 \
         AND NOT EXISTS (SELECT 1 FROM meta m WHERE m.key = 'proven' \
         AND m.value = CAST(g.number AS TEXT)) \
         AND NOT EXISTS (SELECT 1 FROM wanted w WHERE g.number IN \
         (w.staged, w.published, w.reverted, w.base, w.before, w.staged_on)) \
         ORDER BY g.number LIMIT ?3)";
    AUDIT = "SELECT at, action, subject, who, origin, generation_before, \
         COALESCE(generation_after, 0), differences, comment, request_id, operation \
         FROM audit ORDER BY id DESC LIMIT ?";
    OPERATION = "SELECT at, action, subject, who, origin, generation_before, \
         COALESCE(generation_after, 0), differences, comment, request_id, operation \
         FROM audit WHERE operation = ?";
    LAST_AUDIT = "SELECT id, digest FROM audit ORDER BY id DESC LIMIT 1";
    SNAPSHOT = "BEGIN";
    GUARDS = "SELECT name, COALESCE(sql, '') FROM sqlite_schema \
         WHERE type = 'trigger' AND tbl_name = 'audit'";
    AUDIT_AFTER = "SELECT at, action, subject, who, origin, generation_before, \
         COALESCE(generation_after, 0), differences, comment, request_id, operation, \
         id, previous, digest \
         FROM audit WHERE id > ? ORDER BY id LIMIT ?";
    AUDIT_PAGE = "SELECT at, action, subject, who, origin, generation_before, \
         COALESCE(generation_after, 0), differences, comment, request_id, operation, \
         id, previous, digest \
         FROM audit WHERE id < ?1 AND (?2 = '' OR who = ?2) AND (?3 = '' OR action = ?3) \
         AND (?4 = '' OR subject = ?4) AND at >= ?5 AND (?6 = '' OR at < ?6) \
         ORDER BY id DESC LIMIT ?7";
    LAST_CHAINED = "SELECT id, digest FROM audit WHERE digest <> '' ORDER BY id DESC LIMIT 1";
    CHAIN = "UPDATE audit SET previous = ?, digest = ? WHERE id = ?";
    ADD_GENERATION = "INSERT INTO generations \
         (number, document, digest, author, comment, source, created_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?)";
    ADD_AUDIT = "INSERT INTO audit (id, at, action, subject, who, origin, generation_before, \
         generation_after, differences, comment, request_id, operation, previous, digest) \
         VALUES (?, ?, ?, ?, ?, ?, ?, NULLIF(?, 0), ?, ?, ?, ?, ?, ?)";
    FACT = "SELECT value FROM meta WHERE key = ?";
    META = "SELECT key, value FROM meta WHERE SUBSTR(key, 1, LENGTH(?1)) = ?1 ORDER BY key";
    PUT_META = "INSERT INTO meta (key, value) VALUES (?, ?) \
         ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    FORGET_META = "DELETE FROM meta WHERE key = ?";
    CHANGE = "SELECT number, version, state, author, created_at, gateway, \
         staged, published, reverted, due_ms, body FROM changes WHERE number = ?";
    CHANGES = "SELECT number, version, state, author, created_at, gateway, \
         staged, published, reverted, due_ms, body FROM changes WHERE number < ?1 \
         AND (?2 = '' OR state = ?2) ORDER BY number DESC LIMIT ?3";
    CHANGE_DOCUMENT = "SELECT document FROM changes WHERE number = ?";
    CHANGES_AT_WORK = "SELECT number, version, state, author, created_at, gateway, \
         staged, published, reverted, due_ms, body FROM changes WHERE state = 'staged' \
         OR (state = 'published' AND due_ms IS NOT NULL) ORDER BY number LIMIT ?";
    LAST_CHANGE = "SELECT COALESCE(MAX(number), 0) FROM changes";
    OPEN_CHANGES = "SELECT COUNT(*) FROM changes \
         WHERE state IN ('draft', 'approved', 'staged')";
    STAGED_CHANGE = "SELECT number FROM changes WHERE state = 'staged'";
    ADD_CHANGE = "INSERT INTO changes (number, version, state, author, created_at, \
         gateway, staged, published, reverted, due_ms, body, document) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    STEP_CHANGE = "UPDATE changes SET version = ?2, state = ?3, gateway = ?4, \
         staged = ?5, published = ?6, reverted = ?7, due_ms = ?8, body = ?9 \
         WHERE number = ?1 AND version = ?2 - 1";
    PUT_CHANGE_DOCUMENT = "UPDATE changes SET document = ?2 WHERE number = ?1";
    PEOPLE = "SELECT kind, id, body, used_ms FROM people ORDER BY kind, id";
    PERSON = "SELECT kind, id, body, used_ms FROM people WHERE kind = ? AND id = ?";
    PUT_PERSON = "INSERT INTO people (kind, id, body, used_ms) VALUES (?, ?, ?, ?) \
         ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body, \
         used_ms = MAX(people.used_ms, excluded.used_ms)";
    FORGET_PERSON = "DELETE FROM people WHERE kind = ? AND id = ?";
    USED_PERSON = "UPDATE people SET used_ms = MAX(used_ms, ?) WHERE kind = ? AND id = ?";
    COPY = "VACUUM INTO ?";
    CHECK = "PRAGMA integrity_check(1)";
    HELD = "SELECT (SELECT COUNT(*) FROM generations), \
         (SELECT COALESCE(MAX(number), 0) FROM generations), \
         (SELECT value FROM meta WHERE key = 'epoch')";
    FOLD = "PRAGMA journal_mode = DELETE";
    SIZE = "SELECT (SELECT page_count FROM pragma_page_count) * \
         (SELECT page_size FROM pragma_page_size)";
    PUT_ALERT = "INSERT INTO alerts (id, compartment, state, severity, resolved_ms, body) \
         VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state, \
         severity = excluded.severity, resolved_ms = excluded.resolved_ms, \
         body = excluded.body";
    BOUND_ALERTS = "DELETE FROM alerts WHERE state = 'resolved' \
         AND id <= (SELECT MAX(id) FROM alerts) - ?";
    ALERTS_SINCE = "SELECT body FROM alerts WHERE state = 'firing' OR resolved_ms >= ? \
         ORDER BY id";
    NEWEST_ALERT = "SELECT COALESCE(MAX(id), 0) FROM alerts";
    ALERTS = "SELECT body FROM alerts WHERE id < ?1 AND (?2 = '' OR state = ?2) \
         AND (?3 = '' OR severity = ?3) AND (?4 = '' OR compartment = ?4) \
         ORDER BY id DESC LIMIT ?5";
    PUT_WINDOWS = "INSERT INTO alert_windows (id, body) VALUES (1, ?) \
         ON CONFLICT (id) DO UPDATE SET body = excluded.body";
    WINDOWS = "SELECT body FROM alert_windows WHERE id = 1";
    PUT_DRILL = "INSERT INTO drills (id, route, at_ms, body) VALUES (?, ?, ?, ?) \
         ON CONFLICT (id) DO UPDATE SET body = excluded.body";
    BOUND_DRILLS_OF_ROUTE = "DELETE FROM drills WHERE route = ?1 AND id NOT IN (SELECT id \
         FROM drills WHERE route = ?1 ORDER BY at_ms DESC, id DESC LIMIT ?2)";
    BOUND_DRILLS = "DELETE FROM drills WHERE id NOT IN (SELECT id FROM drills \
         ORDER BY at_ms DESC, id DESC LIMIT ?)";
    DRILL = "SELECT body FROM drills WHERE id = ?";
    DRILLS = "SELECT body FROM drills ORDER BY at_ms, id";
    LAST_SCHEDULED = "SELECT COALESCE(MAX(id), 0), \
         COALESCE(SUM(is_open), 0) FROM scheduled";
    OVERLAPPING = "SELECT id FROM scheduled WHERE is_open = 1 AND slot = ? \
         AND starts_ms < ? AND ends_ms > ? AND id <> ? ORDER BY id LIMIT 1";
    ADD_SCHEDULED = "INSERT INTO scheduled (slot, starts_ms, ends_ms, is_open, body, id) \
         VALUES (?, ?, ?, ?, ?, ?)";
    PUT_SCHEDULED = "UPDATE scheduled SET slot = ?, starts_ms = ?, \
         ends_ms = ?, is_open = ?, body = ? WHERE id = ? AND body = ?";
    BOUND_SCHEDULED = "DELETE FROM scheduled WHERE is_open = 0 \
         AND id <= (SELECT MAX(id) FROM scheduled) - ?";
    SCHEDULED = "SELECT id, slot, starts_ms, ends_ms, is_open, body FROM scheduled \
         WHERE is_open >= ? AND id >= ? AND id <= ? ORDER BY id DESC LIMIT ?";
    OLD_NAMED = "DELETE FROM idempotency WHERE begun_ms < ?1 OR begun_ms > ?2";
    BOUND_NAMED = "DELETE FROM idempotency WHERE begun_ms < (SELECT MIN(begun_ms) FROM \
         (SELECT begun_ms FROM idempotency ORDER BY begun_ms DESC LIMIT ?1) AS newest)";
    BEGIN_NAMED = "INSERT INTO idempotency (caller, name, fingerprint, begun_ms) \
         VALUES (?1, ?2, ?3, ?4) ON CONFLICT (caller, name) DO NOTHING";
    NAMED = "SELECT fingerprint, begun_ms, answer FROM idempotency \
         WHERE caller = ?1 AND name = ?2";
    END_NAMED = "UPDATE idempotency SET answer = ?3 WHERE caller = ?1 AND name = ?2";
    FORGET_NAMED = "DELETE FROM idempotency WHERE caller = ?1 AND name = ?2";
}
