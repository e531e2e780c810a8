-- +goose Up
-- Patterns of the paths and the devices of hosts that tasks of the pool may have, as JSON; '' for none.
ALTER TABLE pools ADD COLUMN host_paths TEXT NOT NULL DEFAULT '';
ALTER TABLE pools ADD COLUMN devices TEXT NOT NULL DEFAULT '';
