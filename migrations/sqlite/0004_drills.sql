-- Reports of drills: when a route's fallback was last rehearsed outlives a restart. The columns beside
-- the body are what a report is found by and what the bounds count.

CREATE TABLE drills (
    id TEXT PRIMARY KEY NOT NULL,
    route TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE INDEX drills_by_route ON drills (route, at_ms);

CREATE INDEX drills_by_time ON drills (at_ms);
