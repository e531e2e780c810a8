-- +goose Up
-- The logins of browsers.
CREATE TABLE browser_sessions (
    hash       TEXT NOT NULL PRIMARY KEY, -- of the secret in the cookie
    token      TEXT NOT NULL,             -- the hash of the token that began it, or the key of an identity
    name       TEXT   NOT NULL,
    browser    TEXT   NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- Of users of an OpenID Connect provider.
    identity      TEXT,    -- in JSON
    sealed        TEXT,    -- the tokens of the provider
    confirmed_at  INTEGER,
    confirm_after INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX browser_sessions_token ON browser_sessions (token);
CREATE INDEX browser_sessions_used ON browser_sessions (used_at);
CREATE INDEX browser_sessions_expires ON browser_sessions (expires_at);
