-- Whole policies in numbered generations, and who made each. Both rows of one change are written
-- in one transaction, or neither is. In a schema of our own: nothing here depends on a search path.

CREATE TABLE bulkhead.meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE bulkhead.generations (
    number BIGINT PRIMARY KEY CHECK (number > 0),
    digest TEXT NOT NULL,
    author TEXT NOT NULL,
    comment TEXT NOT NULL,
    source TEXT NOT NULL,
    created_at TEXT NOT NULL,
    document TEXT NOT NULL
);

CREATE TABLE bulkhead.audit (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at TEXT NOT NULL,
    action TEXT NOT NULL,
    who TEXT NOT NULL,
    origin TEXT NOT NULL,
    generation_before BIGINT NOT NULL,
    generation_after BIGINT NOT NULL REFERENCES bulkhead.generations (number),
    differences TEXT NOT NULL,
    request_id TEXT NOT NULL
);
