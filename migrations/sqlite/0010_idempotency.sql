-- Answers to requests that name themselves (`Idempotency-Key`), so that one that is sent again does
-- nothing a second time. `answer` is NULL while the first is under way.

CREATE TABLE idempotency (
    caller TEXT NOT NULL,
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    begun_ms INTEGER NOT NULL,
    answer TEXT,
    PRIMARY KEY (caller, name)
) STRICT;

CREATE INDEX idempotency_by_time ON idempotency (begun_ms);
