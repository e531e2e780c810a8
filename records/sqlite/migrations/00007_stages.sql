-- The stage of a running task, in events of tasks and of stages; '' otherwise.

-- +goose Up
ALTER TABLE events ADD COLUMN stage TEXT NOT NULL DEFAULT '';
