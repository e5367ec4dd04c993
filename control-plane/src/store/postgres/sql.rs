//! Every statement of the store on Postgres.
//!
//! Separate so that a test prepares all of them. The same names as for SQLite, and some about
//! sessions and locks that SQLite has no use for. Every table with its schema: a search path is
//! somebody else's setting.

use crate::store::statements::statements;

statements! {
    /// What every session is set to: how long a statement, a lock and a silent client may take.
    SESSION = "SELECT set_config('statement_timeout', '8000', false), \
         set_config('lock_timeout', '5000', false), \
         set_config('idle_in_transaction_session_timeout', '4000', false)";
    /// A change is acknowledged when it is on disk, whatever the server's default is.
    IN_FULL = "SELECT set_config('synchronous_commit', 'on', false) \
         WHERE current_setting('synchronous_commit') = 'off'";
    ENCODING = "SELECT current_setting('server_encoding')";
    LONG_LOCK = "SELECT set_config('lock_timeout', '60000', false), \
         set_config('statement_timeout', '0', false)";
    LOCK = "SELECT pg_advisory_lock($1)";
    /// The first table or view that is neither the server's, an extension's, nor in a schema of
    /// ours that holds our migrations. For the history only its own schema counts: the store beside
    /// it has been let in already.
    FOREIGN = "SELECT n.nspname || '.' || c.relname FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' \
         AND n.nspname <> 'information_schema' AND ($1 = 'bulkhead' OR n.nspname = $1) \
         AND NOT (n.nspname IN ('bulkhead', 'bulkhead_history') \
         AND to_regclass(n.nspname || '._sqlx_migrations') IS NOT NULL) \
         AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = c.oid \
         AND d.classid = 'pg_catalog.pg_class'::regclass AND d.deptype = 'e') \
         ORDER BY 1 LIMIT 1";
    OURS = "SELECT to_regclass($1) IS NOT NULL";
    BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";
    COMMIT = "COMMIT";
    ROLLBACK = "ROLLBACK";
    /// Heard by whoever listens once the transaction is stored, and by nobody if it is not.
    TELL = "SELECT pg_notify('bulkhead_changed', '')";
    /// For what is worth a second of waiting and no log.
    PASSING = "SELECT set_config('statement_timeout', '2000', false), \
         set_config('lock_timeout', '1000', false), \
         set_config('synchronous_commit', 'off', false)";
    PUT_LIVE = "INSERT INTO bulkhead.live (gateway, replica, beat_us, state, report) \
         SELECT w.gateway, $1, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint, \
         w.state, w.report \
         FROM UNNEST($2::text[], $3::text[], $4::bytea[]) AS w (gateway, state, report) \
         ON CONFLICT (gateway) DO UPDATE SET replica = excluded.replica, \
         beat_us = excluded.beat_us, state = excluded.state, report = excluded.report";
    LIVE = "SELECT l.gateway, l.beat_us, l.state, l.report FROM bulkhead.live l \
         WHERE l.replica <> $1 \
         AND l.beat_us > (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint - $2 \
         AND NOT EXISTS (SELECT 1 FROM UNNEST($3::text[], $4::bigint[]) AS k (gateway, beat_us) \
         WHERE k.gateway = l.gateway AND k.beat_us = l.beat_us) \
         ORDER BY l.beat_us LIMIT $5";
    FORGET_LIVE = "DELETE FROM bulkhead.live WHERE beat_us < \
         (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint - $1";
    ALIVE = "SELECT 1";
    /// A session that leads and says nothing for 6 s is ended, and so is one whose machine is gone:
    /// its lock is free then. Servers that do not know one of these do without it.
    LEADING = "SELECT set_config(name, value, false) FROM pg_catalog.pg_settings \
         JOIN (VALUES ('statement_timeout', '2000'), ('idle_session_timeout', '6000'), \
         ('tcp_user_timeout', '6000'), ('tcp_keepalives_idle', '2'), \
         ('tcp_keepalives_interval', '1'), ('tcp_keepalives_count', '3')) \
         AS wanted (name, value) USING (name)";
    LEAD = "SELECT pg_try_advisory_lock($1)";
    EPOCH = "SELECT value FROM bulkhead.meta WHERE key = 'epoch'";
    /// Writers take turns: the row is locked until the transaction ends. A statement of its own:
    /// what the next one sees must be younger than the lock.
    TURN = "SELECT value FROM bulkhead.meta WHERE key = 'epoch' FOR NO KEY UPDATE";
    MAKE_EPOCH = "INSERT INTO bulkhead.meta (key, value) VALUES ('epoch', $1) \
         ON CONFLICT DO NOTHING";
    /// What goes to one gateway alone is not the newest.
    NEWEST = "SELECT COALESCE(MAX(number), 0) FROM bulkhead.generations WHERE source <> 'stage'";
    LAST = "SELECT COALESCE(MAX(number), 0) FROM bulkhead.generations";
    NEWEST_BEFORE = "SELECT COALESCE(MAX(number), 0) FROM bulkhead.generations \
         WHERE source <> 'stage' AND number < $1";
    /// The length stands in the head of the row: the document is not read for it.
    GENERATION = "SELECT number, digest, author, comment, source, created_at, \
         octet_length(document) > 0, document \
         FROM bulkhead.generations WHERE number = $1";
    GENERATIONS = "SELECT number, digest, author, comment, source, created_at, \
         octet_length(document) > 0 \
         FROM bulkhead.generations WHERE number < $1 ORDER BY number DESC LIMIT $2";
    /// What is still sent somewhere, or what a change on its way refers to, stays.
    FORGET_DOCUMENTS = "WITH wanted AS MATERIALIZED (SELECT staged, published, reverted, \
         (body::jsonb ->> 'base')::bigint AS base, \
         (body::jsonb ->> 'before')::bigint AS before, \
         (body::jsonb ->> 'staged_on')::bigint AS staged_on \
         FROM bulkhead.changes WHERE state IN ('draft', 'approved', 'staged') \
         OR (state = 'published' AND due_ms IS NOT NULL)) \
         UPDATE bulkhead.generations SET document = '' WHERE number IN \
         (SELECT g.number FROM bulkhead.generations g WHERE octet_length(g.document) > 0 \
         AND g.number <= (SELECT MAX(number) FROM bulkhead.generations) - $1 \
         AND g.number < (SELECT MAX(number) FROM bulkhead.generations WHERE source <> 'stage') \
         AND g.created_at < $2 COLLATE \"C\" \
         AND NOT EXISTS (SELECT 1 FROM bulkhead.meta m WHERE m.key = 'proven' \
         AND m.value = CAST(g.number AS TEXT)) \
         AND NOT EXISTS (SELECT 1 FROM wanted w WHERE g.number IN \
         (w.staged, w.published, w.reverted, w.base, w.before, w.staged_on)) \
         ORDER BY g.number LIMIT $3)";
    AUDIT = "SELECT at, action, subject, who, origin, generation_before, \
         COALESCE(generation_after, 0), differences, comment, request_id, operation \
         FROM bulkhead.audit ORDER BY id DESC LIMIT $1";
    OPERATION = "SELECT at, action, subject, who, origin, generation_before, \
         COALESCE(generation_after, 0), differences, comment, request_id, operation \
         FROM bulkhead.audit WHERE operation = $1";
    LAST_AUDIT = "SELECT id, digest FROM bulkhead.audit ORDER BY id DESC LIMIT 1";
    /// Before each row that is changed or deleted, and before the table is emptied.
    GUARDS = "SELECT t.tgname::text, p.prosrc FROM pg_catalog.pg_trigger t \
         JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid \
         WHERE t.tgrelid = 'bulkhead.audit'::regclass AND t.tgenabled IN ('O', 'A') \
         AND t.tgqual IS NULL AND t.tgtype IN (27, 34)";
    SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    AUDIT_AFTER = "SELECT at, action, subject, who, origin, generation_before, \
         COALESCE(generation_after, 0), differences, comment, request_id, operation, \
         id, previous, digest \
         FROM bulkhead.audit WHERE id > $1 ORDER BY id LIMIT $2";
    AUDIT_PAGE = "SELECT at, action, subject, who, origin, generation_before, \
         COALESCE(generation_after, 0), differences, comment, request_id, operation, \
         id, previous, digest \
         FROM bulkhead.audit WHERE id < $1 AND ($2 = '' OR who = $2) \
         AND ($3 = '' OR action = $3) AND ($4 = '' OR subject = $4) \
         AND at COLLATE \"C\" >= $5 AND ($6 = '' OR at COLLATE \"C\" < $6) \
         ORDER BY id DESC LIMIT $7";
    LAST_CHAINED = "SELECT id, \
         digest FROM bulkhead.audit WHERE digest <> '' ORDER BY id DESC LIMIT 1";
    CHAIN = "UPDATE bulkhead.audit SET previous = $1, digest = $2 WHERE id = $3";
    ADD_GENERATION = "INSERT INTO bulkhead.generations \
         (number, document, digest, author, comment, source, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)";
    ADD_AUDIT = "INSERT INTO bulkhead.audit (id, at, action, subject, who, origin, \
         generation_before, generation_after, differences, comment, request_id, operation, \
         previous, digest) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, NULLIF($8, 0), $9, $10, $11, $12, $13, $14)";
    FACT = "SELECT value FROM bulkhead.meta WHERE key = $1";
    META = "SELECT key, value FROM bulkhead.meta WHERE starts_with(key, $1) \
         ORDER BY key COLLATE \"C\"";
    PUT_META = "INSERT INTO bulkhead.meta (key, value) VALUES ($1, $2) \
         ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    FORGET_META = "DELETE FROM bulkhead.meta WHERE key = $1";
    CHANGE = "SELECT number, version, state, author, created_at, gateway, \
         staged, published, reverted, due_ms, body FROM bulkhead.changes WHERE number = $1";
    CHANGES = "SELECT number, version, state, author, created_at, gateway, \
         staged, published, reverted, due_ms, body FROM bulkhead.changes WHERE number < $1 \
         AND ($2 = '' OR state = $2) ORDER BY number DESC LIMIT $3";
    CHANGE_DOCUMENT = "SELECT document FROM bulkhead.changes WHERE number = $1";
    CHANGES_AT_WORK = "SELECT number, version, state, author, created_at, gateway, \
         staged, published, reverted, due_ms, body FROM bulkhead.changes WHERE state = 'staged' \
         OR (state = 'published' AND due_ms IS NOT NULL) ORDER BY number LIMIT $1";
    LAST_CHANGE = "SELECT COALESCE(MAX(number), 0) FROM bulkhead.changes";
    OPEN_CHANGES = "SELECT COUNT(*) FROM bulkhead.changes \
         WHERE state IN ('draft', 'approved', 'staged')";
    STAGED_CHANGE = "SELECT number FROM bulkhead.changes WHERE state = 'staged'";
    ADD_CHANGE = "INSERT INTO bulkhead.changes (number, version, state, author, created_at, \
         gateway, staged, published, reverted, due_ms, body, document) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    STEP_CHANGE = "UPDATE bulkhead.changes SET version = $2, state = $3, gateway = $4, \
         staged = $5, published = $6, reverted = $7, due_ms = $8, body = $9 \
         WHERE number = $1 AND version = $2 - 1";
    PUT_CHANGE_DOCUMENT = "UPDATE bulkhead.changes SET document = $2 WHERE number = $1";
    PEOPLE = "SELECT kind, id, body, used_ms FROM bulkhead.people ORDER BY kind, id";
    PERSON = "SELECT kind, id, body, used_ms FROM bulkhead.people WHERE kind = $1 AND id = $2";
    PUT_PERSON = "INSERT INTO bulkhead.people (kind, id, body, used_ms) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body, \
         used_ms = GREATEST(people.used_ms, excluded.used_ms)";
    FORGET_PERSON = "DELETE FROM bulkhead.people WHERE kind = $1 AND id = $2";
    USED_PERSON = "UPDATE bulkhead.people SET used_ms = GREATEST(used_ms, $1) \
         WHERE kind = $2 AND id = $3";
    SIZE = "SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0)::bigint \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = $1 AND c.relkind = 'r'";
    PUT_ALERTS = "INSERT INTO bulkhead.alerts \
         (id, compartment, state, severity, resolved_ms, body) \
         SELECT * FROM UNNEST($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], \
         $6::text[]) ON CONFLICT (id) DO UPDATE SET state = excluded.state, \
         severity = excluded.severity, resolved_ms = excluded.resolved_ms, \
         body = excluded.body";
    BOUND_ALERTS = "DELETE FROM bulkhead.alerts WHERE state = 'resolved' \
         AND id <= (SELECT MAX(id) FROM bulkhead.alerts) - $1";
    ALERTS_SINCE = "SELECT body FROM bulkhead.alerts WHERE state = 'firing' OR resolved_ms >= $1 \
         ORDER BY id";
    NEWEST_ALERT = "SELECT COALESCE(MAX(id), 0) FROM bulkhead.alerts";
    ALERTS = "SELECT body FROM bulkhead.alerts WHERE id < $1 AND ($2 = '' OR state = $2) \
         AND ($3 = '' OR severity = $3) AND ($4 = '' OR compartment = $4) \
         ORDER BY id DESC LIMIT $5";
    PUT_WINDOWS = "INSERT INTO bulkhead.alert_windows (id, body) VALUES (1, $1) \
         ON CONFLICT (id) DO UPDATE SET body = excluded.body";
    WINDOWS = "SELECT body FROM bulkhead.alert_windows WHERE id = 1";
    PUT_DRILL = "INSERT INTO bulkhead.drills (id, route, at_ms, body) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (id) DO UPDATE SET body = excluded.body";
    BOUND_DRILLS_OF_ROUTE = "DELETE FROM bulkhead.drills WHERE route = $1 AND id NOT IN \
         (SELECT id FROM bulkhead.drills WHERE route = $1 \
         ORDER BY at_ms DESC, id DESC LIMIT $2)";
    BOUND_DRILLS = "DELETE FROM bulkhead.drills WHERE id NOT IN \
         (SELECT id FROM bulkhead.drills ORDER BY at_ms DESC, id DESC LIMIT $1)";
    DRILL = "SELECT body FROM bulkhead.drills WHERE id = $1";
    DRILLS = "SELECT body FROM bulkhead.drills ORDER BY at_ms, id";
    LAST_SCHEDULED = "SELECT COALESCE(MAX(id), 0), \
         COALESCE(SUM(is_open), 0)::bigint FROM bulkhead.scheduled";
    OVERLAPPING = "SELECT id FROM bulkhead.scheduled WHERE is_open = 1 AND slot = $1 \
         AND starts_ms < $2 AND ends_ms > $3 AND id <> $4 ORDER BY id LIMIT 1";
    ADD_SCHEDULED = "INSERT INTO bulkhead.scheduled (slot, starts_ms, ends_ms, is_open, body, id) \
         VALUES ($1, $2, $3, $4, $5, $6)";
    PUT_SCHEDULED = "UPDATE bulkhead.scheduled SET slot = $1, starts_ms = $2, \
         ends_ms = $3, is_open = $4, body = $5 WHERE id = $6 AND body = $7";
    BOUND_SCHEDULED = "DELETE FROM bulkhead.scheduled WHERE is_open = 0 \
         AND id <= (SELECT MAX(id) FROM bulkhead.scheduled) - $1";
    SCHEDULED = "SELECT id, slot, starts_ms, ends_ms, is_open, body FROM bulkhead.scheduled \
         WHERE is_open >= $1 AND id >= $2 AND id <= $3 ORDER BY id DESC LIMIT $4";
    OLD_NAMED = "DELETE FROM bulkhead.idempotency WHERE begun_ms < $1 OR begun_ms > $2";
    BOUND_NAMED = "DELETE FROM bulkhead.idempotency WHERE begun_ms < (SELECT MIN(begun_ms) FROM \
         (SELECT begun_ms FROM bulkhead.idempotency ORDER BY begun_ms DESC LIMIT $1) AS newest)";
    BEGIN_NAMED = "INSERT INTO bulkhead.idempotency (caller, name, fingerprint, begun_ms) \
         VALUES ($1, $2, $3, $4) ON CONFLICT (caller, name) DO NOTHING";
    NAMED = "SELECT fingerprint, begun_ms, answer FROM bulkhead.idempotency \
         WHERE caller = $1 AND name = $2";
    END_NAMED = "UPDATE bulkhead.idempotency SET answer = $3 WHERE caller = $1 AND name = $2";
    FORGET_NAMED = "DELETE FROM bulkhead.idempotency WHERE caller = $1 AND name = $2";
}
