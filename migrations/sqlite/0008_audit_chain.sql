-- What a row of the audit is about and why, and the chain: every row holds the digest of the row
-- before it and its own. Rows that are there have none yet; they get it with the first start.
-- `generation_after` is NULL in a store that has no generation yet.

CREATE TABLE audit_chained (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    at TEXT NOT NULL,
    action TEXT NOT NULL,
    who TEXT NOT NULL,
    origin TEXT NOT NULL,
    generation_before INTEGER NOT NULL,
    generation_after INTEGER REFERENCES generations (number),
    differences TEXT NOT NULL,
    request_id TEXT NOT NULL,
    operation TEXT,
    subject TEXT NOT NULL DEFAULT '',
    comment TEXT NOT NULL DEFAULT '',
    previous TEXT NOT NULL DEFAULT '',
    digest TEXT NOT NULL DEFAULT ''
) STRICT;

INSERT INTO audit_chained (id, at, action, who, origin, generation_before, generation_after,
    differences, request_id, operation)
SELECT id, at, action, who, origin, generation_before, generation_after,
    differences, request_id, operation
FROM audit;

DROP TABLE audit;

ALTER TABLE audit_chained RENAME TO audit;

CREATE UNIQUE INDEX audit_by_operation ON audit (operation);

-- Against mistakes; whoever may change the tables can take these away, and is found by the chain.
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END;

-- A row without a digest is given one, once.
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
WHEN OLD.digest <> '' OR NEW.digest = '' OR NEW.id <> OLD.id OR NEW.at <> OLD.at
    OR NEW.action <> OLD.action OR NEW.who <> OLD.who OR NEW.origin <> OLD.origin
    OR NEW.generation_before <> OLD.generation_before
    OR NEW.generation_after IS NOT OLD.generation_after
    OR NEW.differences <> OLD.differences OR NEW.request_id <> OLD.request_id
    OR NEW.operation IS NOT OLD.operation OR NEW.subject <> OLD.subject
    OR NEW.comment <> OLD.comment
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END;
