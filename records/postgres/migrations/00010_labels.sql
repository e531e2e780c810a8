-- The labels that the executor of a task must have itself, as JSON with sorted keys; '' if
-- it needs none besides those of the pool. Executors ask for the labels of waiting tasks.

-- +goose Up
ALTER TABLE tasks ADD COLUMN labels TEXT NOT NULL DEFAULT '';
CREATE INDEX tasks_labels ON tasks (pool, labels) WHERE status = 'queued' AND labels <> '';

-- How many tasks of the pool may run at a time; 0: no limit.
ALTER TABLE pools ADD COLUMN max_running INTEGER NOT NULL DEFAULT 0;
