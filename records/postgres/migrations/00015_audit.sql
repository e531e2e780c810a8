-- +goose Up
-- The audit log: who called what through the API, and who was refused. A record is
-- completed once, and not changed after that.
CREATE TABLE audit_records (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- a ULID of the time
    at         BIGINT           NOT NULL,
    until_at   BIGINT           NOT NULL, -- the last of the requests
    requests   BIGINT           NOT NULL, -- that the record stands for
    subject    TEXT COLLATE "C" NOT NULL,
    token      TEXT COLLATE "C" NOT NULL,
    action     TEXT COLLATE "C" NOT NULL, -- operationId
    kind       TEXT COLLATE "C" NOT NULL, -- of the resource
    resource   TEXT COLLATE "C" NOT NULL, -- its id or name
    task       TEXT COLLATE "C" NOT NULL,
    created    TEXT COLLATE "C" NOT NULL,
    group_path TEXT COLLATE "C" NOT NULL,
    result     TEXT COLLATE "C" NOT NULL,
    status     BIGINT           NOT NULL,
    code       TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    remote     TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_records_subject ON audit_records (subject, id);
CREATE INDEX audit_records_action ON audit_records (action, id);
CREATE INDEX audit_records_kind ON audit_records (kind, id);
CREATE INDEX audit_records_resource ON audit_records (kind, resource, id);
CREATE INDEX audit_records_result ON audit_records (result, id);

-- A row for the group of a record, and one for each group above it but the root.
CREATE TABLE audit_groups (
    path TEXT COLLATE "C" NOT NULL,
    id   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (path, id)
);
