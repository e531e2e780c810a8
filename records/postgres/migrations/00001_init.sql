-- Times are nanoseconds since 1970 in UTC; 0 means none. Statuses, phases and
-- results are those of package run. In columns of JSON, '' means none.

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
    stop_requested BOOLEAN          NOT NULL DEFAULT FALSE,
    created_at     BIGINT           NOT NULL,
    started_at     BIGINT           NOT NULL DEFAULT 0,
    ended_at       BIGINT           NOT NULL DEFAULT 0,
    restarted_from TEXT             NOT NULL DEFAULT '',
    counts         TEXT             NOT NULL,              -- JSON: the number of tasks by status
    approved       TEXT             NOT NULL DEFAULT '',   -- JSON: the numbers of the tasks with enough approvals
    version        BIGINT           NOT NULL DEFAULT 1,
    grouped        BOOLEAN          NOT NULL DEFAULT FALSE -- the run has change groups; without them it needs no further statements
);
CREATE INDEX runs_group ON runs (group_path, id);

-- One row for each path by which a query may name the run's group, '' for all
-- groups: a query for any phases and results reads only its runs, in order.
-- state is the phase, or the result of a finished run.
CREATE TABLE run_states (
    prefix TEXT COLLATE "C" NOT NULL,
    state  TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (prefix, state, run_id)
);

-- The large columns that rarely change are not in runs, whose row every change
-- of a task rewrites.
CREATE TABLE run_details (
    run_id       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    header       TEXT             NOT NULL,           -- JSON: the specification without tasks, secrets and annotations
    secret_names TEXT             NOT NULL,           -- JSON
    annotations  TEXT             NOT NULL,           -- JSON
    restarted_as TEXT             NOT NULL DEFAULT '' -- JSON, oldest first
);

CREATE TABLE run_secrets (
    run_id  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    secrets TEXT             NOT NULL -- JSON, encrypted if there is a key
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

CREATE TABLE idempotency (
    subject TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL, -- the key
    salt    TEXT             NOT NULL,
    digest  TEXT             NOT NULL, -- of the salt and the request
    run_id  TEXT COLLATE "C" NOT NULL,
    at      BIGINT           NOT NULL,
    PRIMARY KEY (subject, name)
);
CREATE INDEX idempotency_at ON idempotency (at);

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
    axis        TEXT             NOT NULL,            -- JSON
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
    steps       TEXT             NOT NULL DEFAULT '', -- JSON
    annotations TEXT             NOT NULL DEFAULT '', -- JSON
    PRIMARY KEY (run_id, number)
);
-- The name comes first, so that no planner reads all tasks of a run by this index.
CREATE UNIQUE INDEX tasks_name ON tasks (name, run_id);
CREATE INDEX tasks_demand ON tasks (pool, status) WHERE status IN ('queued', 'running');

-- The outputs of the newest dispatch that had any.
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
    set_name   TEXT             NOT NULL DEFAULT '', -- '' for none
    journal_id TEXT             NOT NULL,
    claimed_at BIGINT           NOT NULL,
    PRIMARY KEY (run_id, task, attempt, dispatch)
);

CREATE TABLE changegroups (
    name        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    max_running INTEGER          NOT NULL DEFAULT 0, -- 0: no limit
    on_busy     TEXT             NOT NULL DEFAULT 'queue',
    version     BIGINT           NOT NULL DEFAULT 0
);

-- The state of each run in its change groups: not_started (it waits to
-- be started), waiting (for a slot), holding (a slot), done. since is when that
-- state began, and orders the runs that do not hold a slot.
CREATE TABLE run_changegroups (
    name     TEXT COLLATE "C" NOT NULL,
    run_id   TEXT COLLATE "C" NOT NULL,
    state    TEXT COLLATE "C" NOT NULL,
    priority INTEGER          NOT NULL,
    since    BIGINT           NOT NULL,
    PRIMARY KEY (name, run_id)
);
CREATE INDEX run_changegroups_run ON run_changegroups (run_id);
CREATE INDEX run_changegroups_queue ON run_changegroups (name, state, priority, since, run_id) WHERE state <> 'done';

-- A row is a batch of frames as it was received, or all frames up to last_frame
-- in one packed object. A packed log can be packed again, with the batches after
-- it. The bytes belong to the source task if a restart kept the task of another
-- run; source_run is '' if they are the run's own.
CREATE TABLE log_batches (
    run_id      TEXT COLLATE "C" NOT NULL,
    task        INTEGER          NOT NULL,
    attempt     INTEGER          NOT NULL,
    dispatch    INTEGER          NOT NULL,
    first_frame BIGINT           NOT NULL,
    last_frame  BIGINT           NOT NULL,
    task_end    BOOLEAN          NOT NULL,
    source_run  TEXT COLLATE "C" NOT NULL DEFAULT '',
    source_task INTEGER          NOT NULL DEFAULT 0,
    packed      BOOLEAN          NOT NULL DEFAULT FALSE,
    bytes       BIGINT           NOT NULL DEFAULT 0,  -- the stored size of the object
    outline     TEXT             NOT NULL DEFAULT '', -- JSON: what a batch contains; '' for packed logs
    remaining   BIGINT,                               -- the rest of the dispatch's log limit after the batch; NULL: no limit
    PRIMARY KEY (run_id, task, attempt, dispatch, first_frame)
);
CREATE INDEX log_batches_source ON log_batches (source_run, source_task) WHERE source_run <> '';

-- The logs that are to be packed.
CREATE TABLE log_packing (
    run_id     TEXT COLLATE "C" NOT NULL,
    task       INTEGER          NOT NULL,
    attempt    INTEGER          NOT NULL,
    dispatch   INTEGER          NOT NULL,
    due_at     BIGINT           NOT NULL,           -- 0: after the last frame; in the future: the end of a lease
    last_frame BIGINT           NOT NULL DEFAULT 0, -- the last frame of an object whose write may have begun; 0: none
    PRIMARY KEY (run_id, task, attempt, dispatch)
);
CREATE INDEX log_packing_due ON log_packing (due_at) WHERE due_at > 0;

-- Tasks whose logs were removed; -1 means all tasks of the run.
CREATE TABLE expired_logs (
    run_id TEXT COLLATE "C" NOT NULL,
    task   INTEGER          NOT NULL,
    PRIMARY KEY (run_id, task)
);

-- Objects of logs to which no run refers any more. A packed log has its last
-- frame in first_frame, negated.
CREATE TABLE log_garbage (
    run_id      TEXT COLLATE "C" NOT NULL,
    task        INTEGER          NOT NULL,
    attempt     INTEGER          NOT NULL,
    dispatch    INTEGER          NOT NULL,
    first_frame BIGINT           NOT NULL,
    PRIMARY KEY (run_id, task, attempt, dispatch, first_frame)
);

-- The objects in the blob store of archives. A row is inserted before the
-- object's first byte is written, and deleted after its last byte is deleted. An
-- object with no references is garbage when it is due. deleting means that
-- its bytes may be deleted already.
CREATE TABLE archive_objects (
    object   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    refs     INTEGER          NOT NULL,
    deleting BOOLEAN          NOT NULL,
    due_at   BIGINT           NOT NULL
);
CREATE INDEX archive_objects_due ON archive_objects (due_at) WHERE refs = 0;

-- Workspaces and artifacts that the steps of a dispatch saved. The row of one
-- that expired remains, without an object.
CREATE TABLE archives (
    run_id     TEXT COLLATE "C" NOT NULL,
    task       INTEGER          NOT NULL,
    attempt    INTEGER          NOT NULL,
    dispatch   INTEGER          NOT NULL,
    step       INTEGER          NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL, -- of an artifact
    object     TEXT COLLATE "C" NOT NULL, -- '' once it is removed
    size       BIGINT           NOT NULL,
    digest     TEXT COLLATE "C" NOT NULL,
    tests      TEXT COLLATE "C" NOT NULL, -- JSON: the summary of its test reports
    created_at BIGINT           NOT NULL,
    expires_at BIGINT           NOT NULL, -- of an artifact; 0: never
    PRIMARY KEY (run_id, task, attempt, dispatch, step)
);
CREATE INDEX archives_expiry ON archives (expires_at) WHERE expires_at > 0 AND object <> '';
CREATE INDEX archives_workspaces ON archives (created_at) WHERE kind = 'workspace' AND object <> '';

CREATE TABLE caches (
    scope      TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    object     TEXT COLLATE "C" NOT NULL,
    size       BIGINT           NOT NULL,
    digest     TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL,
    used_at    BIGINT           NOT NULL,
    PRIMARY KEY (scope, name)
);
CREATE INDEX caches_used ON caches (used_at);

-- Secrets of the service itself, generated at their first use.
CREATE TABLE service_keys (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL -- encrypted if there is a key
);

CREATE TABLE pools (
    name       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    driver     TEXT             NOT NULL,
    os         TEXT             NOT NULL,
    arch       TEXT             NOT NULL,
    labels     TEXT             NOT NULL,              -- JSON
    privileged BOOLEAN          NOT NULL,
    is_default BOOLEAN          NOT NULL,
    flavor     TEXT             NOT NULL DEFAULT '',   -- JSON
    kubernetes TEXT             NOT NULL DEFAULT '',   -- JSON
    shared     BOOLEAN          NOT NULL DEFAULT FALSE -- runs that must not use each other's images share its hosts
);

-- A temporary executor that is offline for too long is removed by a second check.
CREATE TABLE executors (
    id              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    pool            TEXT COLLATE "C" NOT NULL,
    driver          TEXT             NOT NULL,
    os              TEXT             NOT NULL,
    arch            TEXT             NOT NULL,
    labels          TEXT             NOT NULL,               -- JSON
    privileged      BOOLEAN          NOT NULL,
    slots           INTEGER          NOT NULL,
    slots_used      INTEGER          NOT NULL,
    version         TEXT             NOT NULL,
    journal_id      TEXT             NOT NULL,
    set_name        TEXT             NOT NULL DEFAULT '',    -- '' for none
    fleet           TEXT             NOT NULL DEFAULT '',    -- '' for none
    instance        TEXT             NOT NULL DEFAULT '',    -- of the fleet
    uses            BIGINT           NOT NULL DEFAULT 0,     -- the number of tasks that it has claimed
    max_uses        BIGINT           NOT NULL DEFAULT 0,     -- the number of tasks that it may claim; 0: no limit
    temporary       BOOLEAN          NOT NULL DEFAULT FALSE,
    remove_after    BIGINT           NOT NULL DEFAULT 0,     -- nanoseconds
    draining        BOOLEAN          NOT NULL,               -- the executor reports it
    drained         BOOLEAN          NOT NULL DEFAULT FALSE, -- the executor reports it
    drain_requested BOOLEAN          NOT NULL DEFAULT FALSE, -- a client requested it
    reason          TEXT             NOT NULL DEFAULT '',    -- of the drain, or of the removal
    removed         BOOLEAN          NOT NULL DEFAULT FALSE,
    registered_at   BIGINT           NOT NULL,
    last_contact    BIGINT           NOT NULL,
    suspect_since   BIGINT           NOT NULL DEFAULT 0,     -- when it was first found offline for too long; 0: it was not
    removed_at      BIGINT           NOT NULL DEFAULT 0
);
-- The rows of removed executors are never deleted, and lists do not show them.
CREATE INDEX executors_active ON executors (id) WHERE NOT removed;
CREATE INDEX executors_fleet ON executors (fleet) WHERE fleet <> '' AND NOT removed;

CREATE TABLE fleets (
    name         TEXT   PRIMARY KEY,
    pool         TEXT   NOT NULL DEFAULT '', -- as in config: the fleets of a pool share its demand
    config       TEXT   NOT NULL,            -- JSON, without the parts that may contain credentials
    secrets      TEXT   NOT NULL DEFAULT '', -- JSON: plugin_config and connector_config, encrypted if there is a key
    mode         TEXT   NOT NULL,            -- active, paused, draining, deleting, deleted
    desired      BIGINT NOT NULL DEFAULT -1, -- the number of instances that a client set; -1: the policy decides
    reason       TEXT   NOT NULL DEFAULT '',
    quota        TEXT   NOT NULL DEFAULT '',
    status       TEXT   NOT NULL DEFAULT '', -- JSON: the last report of its worker
    policy_state TEXT   NOT NULL DEFAULT '', -- JSON: the state of the policy between two decisions
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    version      BIGINT NOT NULL DEFAULT 1,
    last_number  BIGINT NOT NULL DEFAULT 0,  -- of an instance
    last_event   BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX fleets_pool ON fleets (pool);

-- The ledger: one row for every instance that a fleet requested or found.
CREATE TABLE fleet_instances (
    fleet        TEXT    NOT NULL,
    number       BIGINT  NOT NULL,
    instance     TEXT    NOT NULL DEFAULT '',    -- the plugin's name for it
    request      TEXT    NOT NULL DEFAULT '',
    acknowledged BOOLEAN NOT NULL DEFAULT FALSE, -- the plugin has answered the request
    cause        TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    message      TEXT    NOT NULL DEFAULT '',
    reason       TEXT    NOT NULL DEFAULT '',
    executor     TEXT    NOT NULL DEFAULT '',
    uses         BIGINT  NOT NULL DEFAULT 0,
    failures     BIGINT  NOT NULL DEFAULT 0,     -- consecutive failed health checks
    requested_at BIGINT  NOT NULL,
    created_at   BIGINT  NOT NULL DEFAULT 0,
    running_at   BIGINT  NOT NULL DEFAULT 0,
    ready_at     BIGINT  NOT NULL DEFAULT 0,
    draining_at  BIGINT  NOT NULL DEFAULT 0,
    deleting_at  BIGINT  NOT NULL DEFAULT 0,
    gone_at      BIGINT  NOT NULL DEFAULT 0,
    last_used    BIGINT  NOT NULL DEFAULT 0,
    missing_from BIGINT  NOT NULL DEFAULT 0,
    misses       BIGINT  NOT NULL DEFAULT 0,     -- consecutive listings that lack it
    PRIMARY KEY (fleet, number)
);
CREATE INDEX fleet_instances_active ON fleet_instances (fleet, number) WHERE state <> 'gone';

CREATE TABLE fleet_events (
    fleet    TEXT   NOT NULL,
    number   BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    kind     TEXT   NOT NULL,
    instance BIGINT NOT NULL DEFAULT 0, -- number in fleet_instances
    name     TEXT   NOT NULL DEFAULT '',
    actor    TEXT   NOT NULL,
    reason   TEXT   NOT NULL DEFAULT '',
    text     TEXT   NOT NULL,
    PRIMARY KEY (fleet, number)
);

CREATE TABLE webhooks (
    name         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    url          TEXT             NOT NULL,
    secret       TEXT             NOT NULL,           -- signs the deliveries; encrypted if there is a key
    events       TEXT             NOT NULL,           -- JSON: types, [] for all
    group_path   TEXT COLLATE "C" NOT NULL,
    run_id       TEXT COLLATE "C" NOT NULL,
    enabled      BOOLEAN          NOT NULL,
    created_at   BIGINT           NOT NULL,
    updated_at   BIGINT           NOT NULL,
    version      BIGINT           NOT NULL DEFAULT 1, -- increases when a client changes the webhook
    epoch        BIGINT           NOT NULL DEFAULT 0, -- of the workflow that delivers
    delivered    BIGINT           NOT NULL,           -- the number of the last delivered event
    batch_end    BIGINT           NOT NULL DEFAULT 0, -- of the batch that failed; 0: none
    last_error   TEXT             NOT NULL DEFAULT '',
    last_attempt BIGINT           NOT NULL DEFAULT 0,
    next_attempt BIGINT           NOT NULL DEFAULT 0,
    failures     INTEGER          NOT NULL DEFAULT 0
);

-- The number of webhooks. Transactions that create one wait for each other by
-- the lock on the only row.
CREATE TABLE webhook_count (
    n INTEGER NOT NULL
);
INSERT INTO webhook_count (n) VALUES (0);

CREATE TABLE schedules (
    name       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    run_name   TEXT             NOT NULL, -- of the specification
    group_path TEXT COLLATE "C" NOT NULL, -- of the specification
    options    TEXT             NOT NULL, -- JSON: the schedule without the specification
    version    BIGINT           NOT NULL,
    created_at BIGINT           NOT NULL,
    updated_at BIGINT           NOT NULL
);

-- Specifications are large, and lists do not read them.
CREATE TABLE schedule_specs (
    schedule TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    spec     TEXT             NOT NULL -- JSON, without secrets
);

CREATE TABLE schedule_secrets (
    schedule TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    secrets  TEXT             NOT NULL -- JSON, encrypted if there is a key
);

CREATE TABLE schedule_firings (
    schedule TEXT COLLATE "C" NOT NULL,
    firing   TEXT COLLATE "C" NOT NULL, -- the workflow execution that fired
    for_time BIGINT           NOT NULL,
    at       BIGINT           NOT NULL,
    run_id   TEXT COLLATE "C" NOT NULL, -- '' if no run was created
    error    TEXT             NOT NULL,
    PRIMARY KEY (schedule, firing)
);
CREATE INDEX schedule_firings_at ON schedule_firings (schedule, at);

CREATE TABLE outbox (
    id         BIGINT           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id     TEXT COLLATE "C" NOT NULL, -- or a prefix and the name of another resource
    kind       TEXT             NOT NULL,
    task       INTEGER          NOT NULL,
    executor   TEXT             NOT NULL DEFAULT '',
    reason     TEXT             NOT NULL DEFAULT '',
    attempts   INTEGER          NOT NULL DEFAULT 0,
    created_at BIGINT           NOT NULL,
    due_at     BIGINT           NOT NULL  -- or the end of the lease
);
CREATE INDEX outbox_due ON outbox (due_at, id);
CREATE INDEX outbox_run ON outbox (run_id, id);

CREATE TABLE events (
    id         BIGINT           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number     BIGINT           UNIQUE, -- NULL until the sequencer assigns it
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

-- The number that was assigned last: one row.
CREATE TABLE event_sequence (
    last BIGINT NOT NULL
);
INSERT INTO event_sequence (last) VALUES (0);

-- The greatest number and the latest time of the events that were removed: one
-- row.
CREATE TABLE event_floor (
    floor BIGINT NOT NULL,
    at    BIGINT NOT NULL
);
INSERT INTO event_floor (floor, at) VALUES (0, 0);
