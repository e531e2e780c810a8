-- +goose Up
-- Patterns of the groups whose runs may use the pool, as JSON; '' for all groups.
ALTER TABLE pools ADD COLUMN allowed_groups TEXT NOT NULL DEFAULT '';

-- The tokens that clients created have their scopes and bindings here, as JSON; '' for
-- those of the token files.
ALTER TABLE bearer_tokens ADD COLUMN entry TEXT NOT NULL DEFAULT '';
ALTER TABLE bearer_tokens ADD COLUMN expires_at BIGINT NOT NULL DEFAULT 0; -- 0: never
ALTER TABLE bearer_tokens ADD COLUMN created_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE bearer_tokens ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX bearer_tokens_created ON bearer_tokens (name) WHERE entry <> '';
