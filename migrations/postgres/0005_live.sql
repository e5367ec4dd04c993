-- What each connected gateway last said, for the control planes that do not hold its stream. One row
-- a gateway, replaced each second; none of it is worth a log, and all of it may be lost.

CREATE UNLOGGED TABLE bulkhead.live (
    gateway TEXT PRIMARY KEY,
    -- The control plane that holds the stream.
    replica TEXT NOT NULL,
    -- When the row was replaced, by the server's clock, in microseconds: it names this content.
    beat_us BIGINT NOT NULL,
    state TEXT NOT NULL,
    report BYTEA NOT NULL
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 1000
);
