-- +goose Up
CREATE TABLE webhooks (
    name          TEXT    NOT NULL PRIMARY KEY,
    url           TEXT    NOT NULL,
    secret        TEXT    NOT NULL, -- sealed where there is a key: deliveries are signed with it
    events        TEXT    NOT NULL, -- JSON: types, [] for all
    group_path    TEXT    NOT NULL,
    run_id        TEXT    NOT NULL,
    enabled       BOOLEAN NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    version       INTEGER NOT NULL DEFAULT 1, -- grows with what clients change
    epoch         INTEGER NOT NULL DEFAULT 0, -- of the one that delivers
    delivered     INTEGER NOT NULL,           -- number of an event
    batch_end     INTEGER NOT NULL DEFAULT 0, -- of the batch that failed; 0 for none
    last_error    TEXT    NOT NULL DEFAULT '',
    last_attempt  INTEGER NOT NULL DEFAULT 0,
    next_attempt  INTEGER NOT NULL DEFAULT 0,
    failures      INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- How many there are: one row, by which those that make one wait for each other.
CREATE TABLE webhook_count (
    n INTEGER NOT NULL
);
INSERT INTO webhook_count (n) VALUES (0);
