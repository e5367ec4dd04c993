-- Figures of compartments over time: rows of ten seconds by gateway, of a minute and of an hour
-- over all gateways. A file of its own beside the store, so that no change of a limit waits
-- behind them. Everything in it can be lost without harm to a policy.

-- "BLKF": tells our file from another program's before anything is changed in it.
PRAGMA application_id = 1112296262;

CREATE TABLE meta (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT;

-- Kind 0: a compartment; 1: a gateway. `seen`: the second of the newest row that uses it.
CREATE TABLE names (
    id INTEGER PRIMARY KEY NOT NULL,
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    seen INTEGER NOT NULL,
    UNIQUE (kind, name)
) STRICT;

-- The time comes first: rows are written at the end and expire from the front, both without
-- touching what lies between. Readers look up each second of a grid.
CREATE TABLE figures_10s (
    slot INTEGER NOT NULL,
    key INTEGER NOT NULL,
    gateway INTEGER NOT NULL,
    figures BLOB NOT NULL,
    PRIMARY KEY (slot, key, gateway)
) STRICT, WITHOUT ROWID;

CREATE TABLE figures_1m (
    slot INTEGER NOT NULL,
    key INTEGER NOT NULL,
    gateway INTEGER NOT NULL,
    figures BLOB NOT NULL,
    PRIMARY KEY (slot, key, gateway)
) STRICT, WITHOUT ROWID;

CREATE TABLE figures_1h (
    slot INTEGER NOT NULL,
    key INTEGER NOT NULL,
    gateway INTEGER NOT NULL,
    figures BLOB NOT NULL,
    PRIMARY KEY (slot, key, gateway)
) STRICT, WITHOUT ROWID;

-- Who was heard of, and how much of the slot: what tells idle from unknown.
CREATE TABLE heard_10s (
    slot INTEGER NOT NULL,
    gateway INTEGER NOT NULL,
    covered_us INTEGER NOT NULL,
    gateway_us INTEGER NOT NULL,
    gateways INTEGER NOT NULL,
    PRIMARY KEY (slot, gateway)
) STRICT, WITHOUT ROWID;

CREATE TABLE heard_1m (
    slot INTEGER NOT NULL,
    gateway INTEGER NOT NULL,
    covered_us INTEGER NOT NULL,
    gateway_us INTEGER NOT NULL,
    gateways INTEGER NOT NULL,
    PRIMARY KEY (slot, gateway)
) STRICT, WITHOUT ROWID;

CREATE TABLE heard_1h (
    slot INTEGER NOT NULL,
    gateway INTEGER NOT NULL,
    covered_us INTEGER NOT NULL,
    gateway_us INTEGER NOT NULL,
    gateways INTEGER NOT NULL,
    PRIMARY KEY (slot, gateway)
) STRICT, WITHOUT ROWID;

-- Up to which second the rows of a width are made of the finer ones.
CREATE TABLE rolled (
    seconds INTEGER PRIMARY KEY NOT NULL,
    until INTEGER NOT NULL
) STRICT;

INSERT INTO rolled (seconds, until) VALUES (60, 0), (3600, 0);

-- When a limit became another one. NULL: no such compartment; -1: unlimited.
CREATE TABLE limit_changes (
    key TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    before INTEGER,
    after INTEGER,
    PRIMARY KEY (key, at_ms, generation)
) STRICT, WITHOUT ROWID;
