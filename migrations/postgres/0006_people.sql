-- Who may use pages and API: users, tokens of the API, sessions of browsers. Secrets lie here as
-- digests or password hashes alone.

CREATE TABLE bulkhead.people (
    -- 'user', 'token' or 'session'.
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    -- What it is, as JSON.
    body TEXT NOT NULL,
    -- When it was last used, in milliseconds of the wall clock, give or take a minute.
    used_ms BIGINT NOT NULL,
    PRIMARY KEY (kind, id)
);
