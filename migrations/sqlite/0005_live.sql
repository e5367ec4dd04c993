-- What each connected gateway last said, for other control planes. A file belongs to one, so nothing
-- is written here; the table is there because both databases have the same.

CREATE TABLE live (
    gateway TEXT PRIMARY KEY NOT NULL,
    replica TEXT NOT NULL,
    beat_us INTEGER NOT NULL,
    state TEXT NOT NULL,
    report BLOB NOT NULL
) STRICT;
