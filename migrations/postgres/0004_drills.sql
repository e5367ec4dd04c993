-- Reports of drills: when a route's fallback was last rehearsed outlives a restart. The columns beside
-- the body are what a report is found by and what the bounds count.

CREATE TABLE bulkhead.drills (
    id TEXT PRIMARY KEY,
    route TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX drills_by_route ON bulkhead.drills (route, at_ms);

CREATE INDEX drills_by_time ON bulkhead.drills (at_ms);
