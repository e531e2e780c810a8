-- +goose Up
CREATE TABLE schedules (
    name       TEXT    NOT NULL PRIMARY KEY,
    run_name   TEXT    NOT NULL, -- of the specification; likewise below
    group_path TEXT    NOT NULL,
    options    TEXT    NOT NULL, -- JSON: the schedule without the specification
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;

-- What is large, apart from what lists read.
CREATE TABLE schedule_specs (
    schedule TEXT NOT NULL PRIMARY KEY,
    spec     TEXT NOT NULL -- JSON, without secrets
) WITHOUT ROWID;

CREATE TABLE schedule_secrets (
    schedule TEXT NOT NULL PRIMARY KEY,
    secrets  TEXT NOT NULL -- JSON, sealed where there is a key
) WITHOUT ROWID;

CREATE TABLE schedule_firings (
    schedule TEXT    NOT NULL,
    firing   TEXT    NOT NULL, -- the execution of the workflow that made it
    for_time INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    run_id   TEXT    NOT NULL, -- '' where none was made
    error    TEXT    NOT NULL,
    PRIMARY KEY (schedule, firing)
) WITHOUT ROWID;
CREATE INDEX schedule_firings_at ON schedule_firings (schedule, at);
