-- +goose Up
-- Patterns of the persistent volumes that tasks of the pool may have, as JSON; '' for none.
ALTER TABLE pools ADD COLUMN volumes TEXT NOT NULL DEFAULT '';
