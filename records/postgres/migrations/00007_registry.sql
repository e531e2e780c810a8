-- +goose Up
ALTER TABLE pools ADD COLUMN flavor TEXT NOT NULL DEFAULT '';     -- JSON, '' for none; likewise below
ALTER TABLE pools ADD COLUMN kubernetes TEXT NOT NULL DEFAULT '';

ALTER TABLE executors ADD COLUMN set_name TEXT NOT NULL DEFAULT ''; -- '' for none
ALTER TABLE executors ADD COLUMN temporary BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE executors ADD COLUMN remove_after BIGINT NOT NULL DEFAULT 0; -- nanoseconds
ALTER TABLE executors ADD COLUMN drain_wanted BOOLEAN NOT NULL DEFAULT FALSE; -- by a client; draining is what it says itself
ALTER TABLE executors ADD COLUMN drained BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE executors ADD COLUMN reason TEXT NOT NULL DEFAULT ''; -- of the drain, or the removal
ALTER TABLE executors ADD COLUMN removed_at BIGINT NOT NULL DEFAULT 0;
-- Removed ones stay for ever, and lists never show them.
CREATE INDEX executors_present ON executors (id) WHERE NOT removed;

ALTER TABLE claims ADD COLUMN set_name TEXT NOT NULL DEFAULT '';

-- What a row tells of, besides its run.
ALTER TABLE outbox ADD COLUMN executor TEXT NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN reason TEXT NOT NULL DEFAULT '';
