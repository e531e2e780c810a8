-- Times are nanoseconds since 1970 in UTC, 0 for none. Statuses, phases and
-- results are the words of package run.

-- +goose Up
CREATE TABLE runs (
    id             TEXT    NOT NULL PRIMARY KEY,
    name           TEXT    NOT NULL,
    group_path     TEXT    NOT NULL,
    counter        INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    admission      TEXT    NOT NULL,
    admitted       BOOLEAN NOT NULL,
    phase          TEXT    NOT NULL,
    result         TEXT    NOT NULL,
    reason         TEXT    NOT NULL,
    stop_wanted    BOOLEAN NOT NULL DEFAULT FALSE,
    created_at     INTEGER NOT NULL,
    started_at     INTEGER NOT NULL DEFAULT 0,
    ended_at       INTEGER NOT NULL DEFAULT 0,
    restarted_from TEXT    NOT NULL DEFAULT '',
    counts         TEXT    NOT NULL,             -- JSON: tasks by status
    approved       TEXT    NOT NULL DEFAULT '',  -- JSON: numbers of the tasks with enough approvals
    version        INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE INDEX runs_phase ON runs (phase, id);
CREATE INDEX runs_result ON runs (result, id);

-- What is large and hardly ever changes, apart from the row that every change
-- of a task rewrites.
CREATE TABLE run_details (
    run_id       TEXT NOT NULL PRIMARY KEY,
    header       TEXT NOT NULL, -- JSON: the specification without tasks, secrets and annotations
    secret_names TEXT NOT NULL, -- JSON
    annotations  TEXT NOT NULL  -- JSON
) WITHOUT ROWID;

CREATE TABLE run_secrets (
    run_id  TEXT NOT NULL PRIMARY KEY,
    secrets TEXT NOT NULL -- JSON, sealed where there is a key
) WITHOUT ROWID;

-- One row for each path that a query for a group may name, so that such a
-- query reads the runs in order and no others.
CREATE TABLE run_groups (
    prefix TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (prefix, run_id)
) WITHOUT ROWID;

CREATE TABLE run_annotations (
    name   TEXT NOT NULL,
    value  TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (name, value, run_id)
) WITHOUT ROWID;

CREATE TABLE counters (
    root    TEXT    NOT NULL PRIMARY KEY, -- the first two elements of a group
    counter INTEGER NOT NULL,
    last_id TEXT    NOT NULL DEFAULT ''
) WITHOUT ROWID;

CREATE TABLE plan_pages (
    run_id TEXT    NOT NULL,
    page   INTEGER NOT NULL,
    plan   TEXT    NOT NULL, -- JSON
    PRIMARY KEY (run_id, page)
) WITHOUT ROWID;

-- The matrix has a column of its own: it may be large, and a read of one of its
-- tasks does not need it.
CREATE TABLE task_specs (
    run_id TEXT    NOT NULL,
    node   INTEGER NOT NULL,
    spec   TEXT    NOT NULL, -- JSON, without the matrix
    matrix TEXT    NOT NULL, -- JSON
    PRIMARY KEY (run_id, node)
) WITHOUT ROWID;

CREATE TABLE tasks (
    run_id      TEXT    NOT NULL,
    number      INTEGER NOT NULL,
    node        INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    spec_name   TEXT    NOT NULL,
    axis        TEXT    NOT NULL, -- JSON, '' for none; likewise below
    pool        TEXT    NOT NULL,
    status      TEXT    NOT NULL DEFAULT 'not_started',
    reason      TEXT    NOT NULL DEFAULT '',
    executor    TEXT    NOT NULL DEFAULT '',
    attempt     INTEGER NOT NULL DEFAULT 0,
    dispatch    INTEGER NOT NULL DEFAULT 0,
    exit_code   INTEGER,
    timed_out   BOOLEAN NOT NULL DEFAULT FALSE,
    queued_at   INTEGER NOT NULL DEFAULT 0,
    started_at  INTEGER NOT NULL DEFAULT 0,
    ended_at    INTEGER NOT NULL DEFAULT 0,
    steps       TEXT    NOT NULL DEFAULT '',
    annotations TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;
-- By name first: a planner must not take it for a way to all tasks of a run.
CREATE UNIQUE INDEX tasks_name ON tasks (name, run_id);
CREATE INDEX tasks_demand ON tasks (pool, status) WHERE status IN ('queued', 'running');

-- Of the newest dispatch that put something out.
CREATE TABLE task_outputs (
    run_id   TEXT    NOT NULL,
    task     INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    dispatch INTEGER NOT NULL,
    outputs  TEXT    NOT NULL, -- JSON
    PRIMARY KEY (run_id, task)
) WITHOUT ROWID;

CREATE TABLE approvals (
    run_id      TEXT    NOT NULL,
    task        INTEGER NOT NULL,
    subject     TEXT    NOT NULL,
    approved_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, task, subject)
) WITHOUT ROWID;

CREATE TABLE claims (
    run_id     TEXT    NOT NULL,
    task       INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    dispatch   INTEGER NOT NULL,
    executor   TEXT    NOT NULL,
    journal_id TEXT    NOT NULL,
    claimed_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, task, attempt, dispatch)
) WITHOUT ROWID;

CREATE TABLE log_batches (
    run_id      TEXT    NOT NULL,
    task        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    dispatch    INTEGER NOT NULL,
    first_frame INTEGER NOT NULL,
    last_frame  INTEGER NOT NULL,
    task_end    BOOLEAN NOT NULL,
    PRIMARY KEY (run_id, task, attempt, dispatch, first_frame)
) WITHOUT ROWID;

CREATE TABLE pools (
    name       TEXT    NOT NULL PRIMARY KEY,
    driver     TEXT    NOT NULL,
    os         TEXT    NOT NULL,
    arch       TEXT    NOT NULL,
    labels     TEXT    NOT NULL, -- JSON
    privileged BOOLEAN NOT NULL,
    is_default BOOLEAN NOT NULL
) WITHOUT ROWID;

CREATE TABLE executors (
    id            TEXT    NOT NULL PRIMARY KEY,
    pool          TEXT    NOT NULL,
    driver        TEXT    NOT NULL,
    os            TEXT    NOT NULL,
    arch          TEXT    NOT NULL,
    labels        TEXT    NOT NULL, -- JSON
    privileged    BOOLEAN NOT NULL,
    slots         INTEGER NOT NULL,
    slots_used    INTEGER NOT NULL,
    version       TEXT    NOT NULL,
    journal_id    TEXT    NOT NULL,
    draining      BOOLEAN NOT NULL,
    removed       BOOLEAN NOT NULL DEFAULT FALSE,
    registered_at INTEGER NOT NULL,
    last_contact  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE outbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id     TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    task       INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    due_at     INTEGER NOT NULL -- or the end of the lease
);
CREATE INDEX outbox_due ON outbox (due_at, id);
CREATE INDEX outbox_run ON outbox (run_id, id);

CREATE TABLE events (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    type       TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    run_id     TEXT    NOT NULL,
    group_path TEXT    NOT NULL,
    phase      TEXT    NOT NULL,
    result     TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    task       TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    executor   TEXT    NOT NULL,
    exit_code  INTEGER
);
CREATE INDEX events_run ON events (run_id, number);
