-- Changes of the policy on their way: proposed, approved, staged on one gateway, published, kept or
-- taken back. What one is beside its columns stands in its body; the document that it proposes is
-- there while it is not a generation yet. A generation of source 'stage' goes to one gateway alone.

CREATE TABLE changes (
    number INTEGER PRIMARY KEY NOT NULL CHECK (number > 0),
    -- Rises with each step: of two that race, the second sees another one than it read.
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    author TEXT NOT NULL,
    created_at TEXT NOT NULL,
    gateway TEXT,
    -- Generations that it made.
    staged INTEGER,
    published INTEGER,
    reverted INTEGER,
    -- When somebody has to look again, in milliseconds since 1970.
    due_ms INTEGER,
    body TEXT NOT NULL,
    document TEXT
) STRICT;

CREATE INDEX changes_by_state ON changes (state, number);

CREATE INDEX generations_published ON generations (number) WHERE source <> 'stage';
