-- +goose Up
CREATE TABLE webhooks (
    name          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    url           TEXT             NOT NULL,
    secret        TEXT             NOT NULL, -- sealed where there is a key: deliveries are signed with it
    events        TEXT             NOT NULL, -- JSON: types, [] for all
    group_path    TEXT COLLATE "C" NOT NULL,
    run_id        TEXT COLLATE "C" NOT NULL,
    enabled       BOOLEAN          NOT NULL,
    created_at    BIGINT           NOT NULL,
    updated_at    BIGINT           NOT NULL,
    version       BIGINT           NOT NULL DEFAULT 1, -- grows with what clients change
    epoch         BIGINT           NOT NULL DEFAULT 0, -- of the one that delivers
    delivered     BIGINT           NOT NULL,           -- number of an event
    batch_end     BIGINT           NOT NULL DEFAULT 0, -- of the batch that failed; 0 for none
    last_error    TEXT             NOT NULL DEFAULT '',
    last_attempt  BIGINT           NOT NULL DEFAULT 0,
    next_attempt  BIGINT           NOT NULL DEFAULT 0,
    failures      INTEGER          NOT NULL DEFAULT 0
);

-- How many there are: one row, by which those that make one wait for each other.
CREATE TABLE webhook_count (
    n INTEGER NOT NULL
);
INSERT INTO webhook_count (n) VALUES (0);
