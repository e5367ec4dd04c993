-- Overrides of one field with a start and an end. The columns beside the body are what is looked for:
-- those that are open, and whether two of them are about the same field at the same time.

CREATE TABLE scheduled (
    id INTEGER PRIMARY KEY NOT NULL,
    slot TEXT NOT NULL,
    starts_ms INTEGER NOT NULL,
    ends_ms INTEGER NOT NULL,
    is_open INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE INDEX scheduled_open ON scheduled (is_open, slot, starts_ms);
