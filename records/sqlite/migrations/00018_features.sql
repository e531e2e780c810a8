-- +goose Up
-- What an executor can do, as a list; empty if it does not report it.
ALTER TABLE executors ADD COLUMN features TEXT NOT NULL DEFAULT '';
