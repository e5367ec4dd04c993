-- Changes of the policy on their way: proposed, approved, staged on one gateway, published, kept or
-- taken back. What one is beside its columns stands in its body; the document that it proposes is
-- there while it is not a generation yet. A generation of source 'stage' goes to one gateway alone.

CREATE TABLE bulkhead.changes (
    number BIGINT PRIMARY KEY CHECK (number > 0),
    -- Rises with each step: of two that race, the second sees another one than it read.
    version BIGINT NOT NULL,
    state TEXT NOT NULL,
    author TEXT NOT NULL,
    created_at TEXT NOT NULL,
    gateway TEXT,
    -- Generations that it made.
    staged BIGINT,
    published BIGINT,
    reverted BIGINT,
    -- When somebody has to look again, in milliseconds since 1970.
    due_ms BIGINT,
    body TEXT NOT NULL,
    document TEXT
);

CREATE INDEX changes_by_state ON bulkhead.changes (state, number);

CREATE INDEX generations_published ON bulkhead.generations (number) WHERE source <> 'stage';
