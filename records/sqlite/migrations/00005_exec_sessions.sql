-- +goose Up
ALTER TABLE pools ADD COLUMN exec_policy TEXT NOT NULL DEFAULT ''; -- '' allows sessions

-- The open sessions. An event records the begin and the end of each.
CREATE TABLE exec_sessions (
    id            TEXT    NOT NULL PRIMARY KEY,
    run_id        TEXT    NOT NULL,
    task          INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    dispatch      INTEGER NOT NULL,
    executor      TEXT    NOT NULL,
    set_name      TEXT    NOT NULL DEFAULT '', -- '' for none
    subject       TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    lease_until   INTEGER NOT NULL,            -- its gateway renews the lease
    joined        BOOLEAN NOT NULL DEFAULT FALSE,
    offered_to    TEXT    NOT NULL DEFAULT '', -- the executor that may join; '' for none
    offered_until INTEGER NOT NULL DEFAULT 0,
    digest        TEXT    NOT NULL DEFAULT ''  -- of the token of the offer
) WITHOUT ROWID;
