-- +goose Up
CREATE TABLE changegroups (
    name        TEXT    NOT NULL PRIMARY KEY,
    max_running INTEGER NOT NULL DEFAULT 0, -- 0 is no limit
    on_busy     TEXT    NOT NULL DEFAULT 'queue',
    version     INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- How each run stands in its groups: parked (it waits to be started), waiting
-- (for a slot), holding (one), done. since is when that state began, for parked
-- and waiting the place in the line.
CREATE TABLE run_changegroups (
    name     TEXT    NOT NULL,
    run_id   TEXT    NOT NULL,
    state    TEXT    NOT NULL,
    priority INTEGER NOT NULL,
    since    INTEGER NOT NULL,
    PRIMARY KEY (name, run_id)
) WITHOUT ROWID;
CREATE INDEX run_changegroups_run ON run_changegroups (run_id);
CREATE INDEX run_changegroups_line ON run_changegroups (name, state, priority, since, run_id) WHERE state <> 'done';

-- So that a run without groups costs no statement more.
ALTER TABLE runs ADD COLUMN grouped BOOLEAN NOT NULL DEFAULT FALSE;

CREATE TABLE idempotency (
    subject TEXT    NOT NULL,
    name    TEXT    NOT NULL, -- the key
    salt    TEXT    NOT NULL,
    digest  TEXT    NOT NULL, -- of the salt and the request
    run_id  TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (subject, name)
) WITHOUT ROWID;
CREATE INDEX idempotency_at ON idempotency (at);
