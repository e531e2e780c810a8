-- Tasks that begin when all other tasks of their run have ended: executors may claim them
-- also after a stop of the run, but not before.

-- +goose Up
ALTER TABLE tasks ADD COLUMN finally BOOLEAN NOT NULL DEFAULT FALSE;
