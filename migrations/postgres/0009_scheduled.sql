-- Overrides of one field with a start and an end. The columns beside the body are what is looked for:
-- those that are open, and whether two of them are about the same field at the same time.

CREATE TABLE bulkhead.scheduled (
    id BIGINT PRIMARY KEY,
    slot TEXT NOT NULL,
    starts_ms BIGINT NOT NULL,
    ends_ms BIGINT NOT NULL,
    is_open BIGINT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX scheduled_open ON bulkhead.scheduled (is_open, slot, starts_ms);
