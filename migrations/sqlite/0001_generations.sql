-- Whole policies in numbered generations, and who made each. Both rows of one change are written
-- in one transaction, or neither is.

-- "BLKH": tells our file from another program's before anything is changed in it.
PRAGMA application_id = 1112296264;

CREATE TABLE meta (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT;

-- The document is last: what stands behind a value of many pages costs reading all of them, and
-- the history is listed without documents.
CREATE TABLE generations (
    number INTEGER PRIMARY KEY NOT NULL CHECK (number > 0),
    digest TEXT NOT NULL,
    author TEXT NOT NULL,
    comment TEXT NOT NULL,
    source TEXT NOT NULL,
    created_at TEXT NOT NULL,
    document TEXT NOT NULL
) STRICT;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    at TEXT NOT NULL,
    action TEXT NOT NULL,
    who TEXT NOT NULL,
    origin TEXT NOT NULL,
    generation_before INTEGER NOT NULL,
    generation_after INTEGER NOT NULL REFERENCES generations (number),
    differences TEXT NOT NULL,
    request_id TEXT NOT NULL
) STRICT;
