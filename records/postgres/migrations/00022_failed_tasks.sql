-- How many tasks of a run failed, in the event of its end: it may be deleted before webhooks
-- read it. NULL in other events, and in those of earlier versions.

-- +goose Up
ALTER TABLE events ADD COLUMN failed_tasks INTEGER;
