-- +goose Up

-- Runs that are queued or running, by each path that a query for a group may
-- name: to count them, and to list them, costs what they are and not what is
-- stored.
CREATE TABLE open_groups (
    prefix TEXT NOT NULL,
    phase  TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (prefix, phase, run_id)
) WITHOUT ROWID;
INSERT INTO open_groups (prefix, phase, run_id)
    SELECT g.prefix, r.phase, r.id FROM run_groups g JOIN runs r ON r.id = g.run_id WHERE r.phase IN ('queued', 'running');

-- Runs that failed or were stopped, likewise: they are few among many.
CREATE TABLE group_results (
    prefix TEXT NOT NULL,
    result TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (prefix, result, run_id)
) WITHOUT ROWID;
INSERT INTO group_results (prefix, result, run_id)
    SELECT g.prefix, r.result, r.id FROM run_groups g JOIN runs r ON r.id = g.run_id WHERE r.result IN ('failed', 'stopped');

CREATE INDEX runs_group ON runs (group_path, id);

ALTER TABLE run_details ADD COLUMN restarted_as TEXT NOT NULL DEFAULT ''; -- JSON, oldest first

-- Where the bytes of a batch lie: those of a task that was kept at a restart
-- are the old run's. '' is the run's own.
ALTER TABLE log_batches ADD COLUMN source_run TEXT NOT NULL DEFAULT '';
ALTER TABLE log_batches ADD COLUMN source_task INTEGER NOT NULL DEFAULT 0;
CREATE INDEX log_batches_source ON log_batches (source_run, source_task) WHERE source_run <> '';

-- Batches whose bytes no run names any more.
CREATE TABLE garbage (
    run_id      TEXT    NOT NULL,
    task        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    dispatch    INTEGER NOT NULL,
    first_frame INTEGER NOT NULL,
    PRIMARY KEY (run_id, task, attempt, dispatch, first_frame)
) WITHOUT ROWID;
