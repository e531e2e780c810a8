-- Times are nanoseconds since 1970 in UTC, 0 for none. Statuses, phases and
-- results are the words of package run.

-- +goose Up
CREATE TABLE runs (
    id             TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name           TEXT COLLATE "C" NOT NULL,
    group_path     TEXT COLLATE "C" NOT NULL,
    counter        BIGINT           NOT NULL,
    priority       INTEGER          NOT NULL,
    admission      TEXT             NOT NULL,
    admitted       BOOLEAN          NOT NULL,
    phase          TEXT COLLATE "C" NOT NULL,
    result         TEXT COLLATE "C" NOT NULL,
    reason         TEXT             NOT NULL,
    stop_wanted    BOOLEAN          NOT NULL DEFAULT FALSE,
    created_at     BIGINT           NOT NULL,
    started_at     BIGINT           NOT NULL DEFAULT 0,
    ended_at       BIGINT           NOT NULL DEFAULT 0,
    restarted_from TEXT             NOT NULL DEFAULT '',
    counts         TEXT             NOT NULL,             -- JSON: tasks by status
    approved       TEXT             NOT NULL DEFAULT '',  -- JSON: numbers of the tasks with enough approvals
    version        BIGINT           NOT NULL DEFAULT 1
);
CREATE INDEX runs_phase ON runs (phase, id);
CREATE INDEX runs_result ON runs (result, id);

-- What is large and hardly ever changes, apart from the row that every change
-- of a task rewrites.
CREATE TABLE run_details (
    run_id       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    header       TEXT             NOT NULL, -- JSON: the specification without tasks, secrets and annotations
    secret_names TEXT             NOT NULL, -- JSON
    annotations  TEXT             NOT NULL  -- JSON
);

CREATE TABLE run_secrets (
    run_id  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    secrets TEXT             NOT NULL -- JSON, sealed where there is a key
);

-- One row for each path that a query for a group may name, so that such a
-- query reads the runs in order and no others.
CREATE TABLE run_groups (
    prefix TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (prefix, run_id)
);

CREATE TABLE run_annotations (
    name   TEXT COLLATE "C" NOT NULL,
    value  TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (name, value, run_id)
);

CREATE TABLE counters (
    root    TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- the first two elements of a group
    counter BIGINT           NOT NULL,
    last_id TEXT             NOT NULL DEFAULT ''
);

CREATE TABLE plan_pages (
    run_id TEXT COLLATE "C" NOT NULL,
    page   INTEGER          NOT NULL,
    plan   TEXT             NOT NULL, -- JSON
    PRIMARY KEY (run_id, page)
);

-- The matrix has a column of its own: it may be large, and a read of one of its
-- tasks does not need it.
CREATE TABLE task_specs (
    run_id TEXT COLLATE "C" NOT NULL,
    node   INTEGER          NOT NULL,
    spec   TEXT             NOT NULL, -- JSON, without the matrix
    matrix TEXT             NOT NULL, -- JSON
    PRIMARY KEY (run_id, node)
);

CREATE TABLE tasks (
    run_id      TEXT COLLATE "C" NOT NULL,
    number      INTEGER          NOT NULL,
    node        INTEGER          NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    spec_name   TEXT             NOT NULL,
    axis        TEXT             NOT NULL, -- JSON, '' for none; likewise below
    pool        TEXT COLLATE "C" NOT NULL,
    status      TEXT COLLATE "C" NOT NULL DEFAULT 'not_started',
    reason      TEXT             NOT NULL DEFAULT '',
    executor    TEXT             NOT NULL DEFAULT '',
    attempt     INTEGER          NOT NULL DEFAULT 0,
    dispatch    INTEGER          NOT NULL DEFAULT 0,
    exit_code   INTEGER,
    timed_out   BOOLEAN          NOT NULL DEFAULT FALSE,
    queued_at   BIGINT           NOT NULL DEFAULT 0,
    started_at  BIGINT           NOT NULL DEFAULT 0,
    ended_at    BIGINT           NOT NULL DEFAULT 0,
    steps       TEXT             NOT NULL DEFAULT '',
    annotations TEXT             NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, number)
);
-- By name first: a planner must not take it for a way to all tasks of a run.
CREATE UNIQUE INDEX tasks_name ON tasks (name, run_id);
CREATE INDEX tasks_demand ON tasks (pool, status) WHERE status IN ('queued', 'running');

-- Of the newest dispatch that put something out.
CREATE TABLE task_outputs (
    run_id   TEXT COLLATE "C" NOT NULL,
    task     INTEGER          NOT NULL,
    attempt  INTEGER          NOT NULL,
    dispatch INTEGER          NOT NULL,
    outputs  TEXT             NOT NULL, -- JSON
    PRIMARY KEY (run_id, task)
);

CREATE TABLE approvals (
    run_id      TEXT COLLATE "C" NOT NULL,
    task        INTEGER          NOT NULL,
    subject     TEXT             NOT NULL,
    approved_at BIGINT           NOT NULL,
    PRIMARY KEY (run_id, task, subject)
);

CREATE TABLE claims (
    run_id     TEXT COLLATE "C" NOT NULL,
    task       INTEGER          NOT NULL,
    attempt    INTEGER          NOT NULL,
    dispatch   INTEGER          NOT NULL,
    executor   TEXT             NOT NULL,
    journal_id TEXT             NOT NULL,
    claimed_at BIGINT           NOT NULL,
    PRIMARY KEY (run_id, task, attempt, dispatch)
);

CREATE TABLE log_batches (
    run_id      TEXT COLLATE "C" NOT NULL,
    task        INTEGER          NOT NULL,
    attempt     INTEGER          NOT NULL,
    dispatch    INTEGER          NOT NULL,
    first_frame BIGINT           NOT NULL,
    last_frame  BIGINT           NOT NULL,
    task_end    BOOLEAN          NOT NULL,
    PRIMARY KEY (run_id, task, attempt, dispatch, first_frame)
);

CREATE TABLE pools (
    name       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    driver     TEXT             NOT NULL,
    os         TEXT             NOT NULL,
    arch       TEXT             NOT NULL,
    labels     TEXT             NOT NULL, -- JSON
    privileged BOOLEAN          NOT NULL,
    is_default BOOLEAN          NOT NULL
);

CREATE TABLE executors (
    id            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    pool          TEXT COLLATE "C" NOT NULL,
    driver        TEXT             NOT NULL,
    os            TEXT             NOT NULL,
    arch          TEXT             NOT NULL,
    labels        TEXT             NOT NULL, -- JSON
    privileged    BOOLEAN          NOT NULL,
    slots         INTEGER          NOT NULL,
    slots_used    INTEGER          NOT NULL,
    version       TEXT             NOT NULL,
    journal_id    TEXT             NOT NULL,
    draining      BOOLEAN          NOT NULL,
    removed       BOOLEAN          NOT NULL DEFAULT FALSE,
    registered_at BIGINT           NOT NULL,
    last_contact  BIGINT           NOT NULL
);

CREATE TABLE outbox (
    id         BIGINT           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id     TEXT COLLATE "C" NOT NULL,
    kind       TEXT             NOT NULL,
    task       INTEGER          NOT NULL,
    attempts   INTEGER          NOT NULL DEFAULT 0,
    created_at BIGINT           NOT NULL,
    due_at     BIGINT           NOT NULL -- or the end of the lease
);
CREATE INDEX outbox_due ON outbox (due_at, id);
CREATE INDEX outbox_run ON outbox (run_id, id);

CREATE TABLE events (
    id         BIGINT           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number     BIGINT           UNIQUE, -- NULL until the sequencer has given it one
    type       TEXT             NOT NULL,
    at         BIGINT           NOT NULL,
    run_id     TEXT COLLATE "C" NOT NULL,
    group_path TEXT COLLATE "C" NOT NULL,
    phase      TEXT COLLATE "C" NOT NULL,
    result     TEXT COLLATE "C" NOT NULL,
    reason     TEXT             NOT NULL,
    task       TEXT             NOT NULL,
    status     TEXT COLLATE "C" NOT NULL,
    attempt    INTEGER          NOT NULL,
    executor   TEXT             NOT NULL,
    exit_code  INTEGER
);
CREATE INDEX events_run ON events (run_id, number);
CREATE INDEX events_unnumbered ON events (id) WHERE number IS NULL;

CREATE TABLE event_sequence (
    last BIGINT NOT NULL -- the number given last; one row
);
INSERT INTO event_sequence (last) VALUES (0);
