-- Alerts from their first firing on, and the windows that the rules look at, so that a restart makes
-- no second alert and loses none. The columns beside the body are what a list is narrowed by.

CREATE TABLE bulkhead.alerts (
    id BIGINT PRIMARY KEY CHECK (id > 0),
    compartment TEXT NOT NULL,
    state TEXT NOT NULL,
    severity TEXT NOT NULL,
    resolved_ms BIGINT,
    body TEXT NOT NULL
);

CREATE INDEX alerts_by_state ON bulkhead.alerts (state, id);

-- One row.
CREATE TABLE bulkhead.alert_windows (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    body TEXT NOT NULL
);
