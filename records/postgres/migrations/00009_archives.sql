-- +goose Up

-- What lies in the blob store of archives: a row is there before the first
-- byte, and goes after the last. One that nothing refers to is garbage once it
-- is due; taken says that its bytes may be gone already.
CREATE TABLE archive_objects (
    object TEXT COLLATE "C"    NOT NULL PRIMARY KEY,
    refs   INTEGER NOT NULL,
    taken  BOOLEAN NOT NULL,
    due_at BIGINT NOT NULL
);
CREATE INDEX archive_objects_due ON archive_objects (due_at) WHERE refs = 0;

-- Workspaces and artifacts: what a step of a dispatch saved. Of one that was
-- removed by its age the row stays, without an object.
CREATE TABLE archives (
    run_id     TEXT COLLATE "C"    NOT NULL,
    task       INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    dispatch   INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    kind       TEXT COLLATE "C"    NOT NULL,
    name       TEXT COLLATE "C"    NOT NULL, -- of an artifact
    object     TEXT COLLATE "C"    NOT NULL, -- '' once it is removed
    size       BIGINT NOT NULL,
    digest     TEXT COLLATE "C"    NOT NULL,
    tests      TEXT COLLATE "C"    NOT NULL, -- JSON: what its reports of tests say, '' for none
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL, -- of an artifact; 0 for never
    PRIMARY KEY (run_id, task, attempt, dispatch, step)
);
CREATE INDEX archives_expiry ON archives (expires_at) WHERE expires_at > 0 AND object <> '';
CREATE INDEX archives_workspaces ON archives (created_at) WHERE kind = 'workspace' AND object <> '';

CREATE TABLE caches (
    scope      TEXT COLLATE "C"    NOT NULL,
    name       TEXT COLLATE "C"    NOT NULL,
    object     TEXT COLLATE "C"    NOT NULL,
    size       BIGINT NOT NULL,
    digest     TEXT COLLATE "C"    NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    PRIMARY KEY (scope, name)
);
CREATE INDEX caches_used ON caches (used_at);

-- Secrets of the service itself, made when they are first needed.
CREATE TABLE service_keys (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL -- sealed where there is a key
);
