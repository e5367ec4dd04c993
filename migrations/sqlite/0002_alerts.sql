-- Alerts from their first firing on, and the windows that the rules look at, so that a restart makes
-- no second alert and loses none. The columns beside the body are what a list is narrowed by.

CREATE TABLE alerts (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id > 0),
    compartment TEXT NOT NULL,
    state TEXT NOT NULL,
    severity TEXT NOT NULL,
    resolved_ms INTEGER,
    body TEXT NOT NULL
) STRICT;

CREATE INDEX alerts_by_state ON alerts (state, id);

-- One row.
CREATE TABLE alert_windows (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    body TEXT NOT NULL
) STRICT;
