-- Each change has a name that its writer chose before it was sent, so that one which was cut off
-- while it was stored can be asked for. NULL: rows from before.

ALTER TABLE audit ADD COLUMN operation TEXT;

CREATE UNIQUE INDEX audit_by_operation ON audit (operation);
