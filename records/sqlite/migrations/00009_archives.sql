-- +goose Up

-- What lies in the blob store of archives: a row is there before the first
-- byte, and goes after the last. One that nothing refers to is garbage once it
-- is due; taken says that its bytes may be gone already.
CREATE TABLE archive_objects (
    object TEXT    NOT NULL PRIMARY KEY,
    refs   INTEGER NOT NULL,
    taken  BOOLEAN NOT NULL,
    due_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX archive_objects_due ON archive_objects (due_at) WHERE refs = 0;

-- Workspaces and artifacts: what a step of a dispatch saved. Of one that was
-- removed by its age the row stays, without an object.
CREATE TABLE archives (
    run_id     TEXT    NOT NULL,
    task       INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    dispatch   INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL, -- of an artifact
    object     TEXT    NOT NULL, -- '' once it is removed
    size       INTEGER NOT NULL,
    digest     TEXT    NOT NULL,
    tests      TEXT    NOT NULL, -- JSON: what its reports of tests say, '' for none
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL, -- of an artifact; 0 for never
    PRIMARY KEY (run_id, task, attempt, dispatch, step)
) WITHOUT ROWID;
CREATE INDEX archives_expiry ON archives (expires_at) WHERE expires_at > 0 AND object <> '';
CREATE INDEX archives_workspaces ON archives (created_at) WHERE kind = 'workspace' AND object <> '';

CREATE TABLE caches (
    scope      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    object     TEXT    NOT NULL,
    size       INTEGER NOT NULL,
    digest     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;
CREATE INDEX caches_used ON caches (used_at);

-- Secrets of the service itself, made when they are first needed.
CREATE TABLE service_keys (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL -- sealed where there is a key
) WITHOUT ROWID;
