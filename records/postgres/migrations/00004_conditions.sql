-- +goose Up
-- The conditions of a task and its steps: '' for none, 'open' until they are
-- evaluated, then the decision as JSON.
ALTER TABLE tasks ADD COLUMN conditions TEXT NOT NULL DEFAULT '';
