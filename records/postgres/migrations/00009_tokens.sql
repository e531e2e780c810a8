-- +goose Up
-- What the gateways share about the bearer tokens of their files.
CREATE TABLE bearer_tokens (
    hash       TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- of the token, as the files of the gateways have it
    name       TEXT             NOT NULL,
    used_at    BIGINT           NOT NULL DEFAULT 0,   -- the last use; 0: never
    revoked_at BIGINT           NOT NULL DEFAULT 0,   -- 0: it is not revoked
    revoked_by TEXT             NOT NULL DEFAULT ''
);
