-- +goose Up
CREATE TABLE schedules (
    name       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    run_name   TEXT             NOT NULL, -- of the specification; likewise below
    group_path TEXT COLLATE "C" NOT NULL,
    options    TEXT             NOT NULL, -- JSON: the schedule without the specification
    version    BIGINT           NOT NULL,
    created_at BIGINT           NOT NULL,
    updated_at BIGINT           NOT NULL
);

-- What is large, apart from what lists read.
CREATE TABLE schedule_specs (
    schedule TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    spec     TEXT             NOT NULL -- JSON, without secrets
);

CREATE TABLE schedule_secrets (
    schedule TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    secrets  TEXT             NOT NULL -- JSON, sealed where there is a key
);

CREATE TABLE schedule_firings (
    schedule TEXT COLLATE "C" NOT NULL,
    firing   TEXT COLLATE "C" NOT NULL, -- the execution of the workflow that made it
    for_time BIGINT           NOT NULL,
    at       BIGINT           NOT NULL,
    run_id   TEXT COLLATE "C" NOT NULL, -- '' where none was made
    error    TEXT             NOT NULL,
    PRIMARY KEY (schedule, firing)
);
CREATE INDEX schedule_firings_at ON schedule_firings (schedule, at);
