-- Figures of compartments over time: rows of ten seconds by gateway, of a minute and of an hour
-- over all gateways. In a schema of its own beside the store. Everything in it can be lost without
-- harm to a policy.

CREATE TABLE bulkhead_history.meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- Kind 0: a compartment; 1: a gateway. `seen`: the second of the newest row that uses it.
CREATE TABLE bulkhead_history.names (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind BIGINT NOT NULL,
    name TEXT NOT NULL,
    seen BIGINT NOT NULL,
    UNIQUE (kind, name)
);

-- The time comes first: rows are written at the end and expire from the front, both without
-- touching what lies between. Readers look up each second of a grid. What has expired is room for
-- what comes, so it is looked for early.
CREATE TABLE bulkhead_history.figures_10s (
    slot BIGINT NOT NULL,
    key BIGINT NOT NULL,
    gateway BIGINT NOT NULL,
    figures BYTEA NOT NULL,
    PRIMARY KEY (slot, key, gateway)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE bulkhead_history.figures_1m (
    slot BIGINT NOT NULL,
    key BIGINT NOT NULL,
    gateway BIGINT NOT NULL,
    figures BYTEA NOT NULL,
    PRIMARY KEY (slot, key, gateway)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE bulkhead_history.figures_1h (
    slot BIGINT NOT NULL,
    key BIGINT NOT NULL,
    gateway BIGINT NOT NULL,
    figures BYTEA NOT NULL,
    PRIMARY KEY (slot, key, gateway)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- Who was heard of, and how much of the slot: what tells idle from unknown.
CREATE TABLE bulkhead_history.heard_10s (
    slot BIGINT NOT NULL,
    gateway BIGINT NOT NULL,
    covered_us BIGINT NOT NULL,
    gateway_us BIGINT NOT NULL,
    gateways BIGINT NOT NULL,
    PRIMARY KEY (slot, gateway)
);

CREATE TABLE bulkhead_history.heard_1m (
    slot BIGINT NOT NULL,
    gateway BIGINT NOT NULL,
    covered_us BIGINT NOT NULL,
    gateway_us BIGINT NOT NULL,
    gateways BIGINT NOT NULL,
    PRIMARY KEY (slot, gateway)
);

CREATE TABLE bulkhead_history.heard_1h (
    slot BIGINT NOT NULL,
    gateway BIGINT NOT NULL,
    covered_us BIGINT NOT NULL,
    gateway_us BIGINT NOT NULL,
    gateways BIGINT NOT NULL,
    PRIMARY KEY (slot, gateway)
);

-- Up to which second the rows of a width are made of the finer ones.
CREATE TABLE bulkhead_history.rolled (
    seconds BIGINT PRIMARY KEY,
    until BIGINT NOT NULL
);

INSERT INTO bulkhead_history.rolled (seconds, until) VALUES (60, 0), (3600, 0);

-- How many rows the tables of figures hold, and how many bytes of figures: changed with the rows,
-- because the size of a table does not go down when rows do, and its statistics are a guess. One
-- row.
CREATE TABLE bulkhead_history.used (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    rows BIGINT NOT NULL,
    bytes BIGINT NOT NULL
) WITH (fillfactor = 50);

INSERT INTO bulkhead_history.used (id, rows, bytes) VALUES (1, 0, 0);

-- When a limit became another one. NULL: no such compartment; -1: unlimited.
CREATE TABLE bulkhead_history.limit_changes (
    key TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    before BIGINT,
    after BIGINT,
    PRIMARY KEY (key, at_ms, generation)
);
