-- The cause of a task's failure, as in run.TaskResult; '' if the task did not fail or
-- an earlier version of Drover recorded its end.

-- +goose Up
ALTER TABLE tasks ADD COLUMN cause TEXT NOT NULL DEFAULT '';
