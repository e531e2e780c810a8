-- +goose Up
-- The audit log: who called what through the API, and who was refused. A record is
-- completed once, and not changed after that.
CREATE TABLE audit_records (
    id         TEXT    NOT NULL PRIMARY KEY, -- a ULID of the time
    at         INTEGER NOT NULL,
    until_at   INTEGER NOT NULL, -- the last of the requests
    requests   INTEGER NOT NULL, -- that the record stands for
    subject    TEXT    NOT NULL,
    token      TEXT    NOT NULL,
    action     TEXT    NOT NULL, -- operationId
    kind       TEXT    NOT NULL, -- of the resource
    resource   TEXT    NOT NULL, -- its id or name
    task       TEXT    NOT NULL,
    created    TEXT    NOT NULL,
    group_path TEXT    NOT NULL,
    result     TEXT    NOT NULL,
    status     INTEGER NOT NULL,
    code       TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    remote     TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX audit_records_subject ON audit_records (subject, id);
CREATE INDEX audit_records_action ON audit_records (action, id);
CREATE INDEX audit_records_kind ON audit_records (kind, id);
CREATE INDEX audit_records_resource ON audit_records (kind, resource, id);
CREATE INDEX audit_records_result ON audit_records (result, id);

-- A row for the group of a record, and one for each group above it but the root.
CREATE TABLE audit_groups (
    path TEXT    NOT NULL,
    id   TEXT    NOT NULL,
    PRIMARY KEY (path, id)
) WITHOUT ROWID;
