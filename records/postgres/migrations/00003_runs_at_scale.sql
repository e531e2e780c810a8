-- +goose Up

-- One row for each path that a query for a group may name, '' for all: such
-- queries, for any phases and results, read the runs in order and no others.
-- state is the phase, or the result of a run that is finished.
CREATE TABLE run_states (
    prefix TEXT COLLATE "C" NOT NULL,
    state  TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (prefix, state, run_id)
);
INSERT INTO run_states (prefix, state, run_id)
    SELECT g.prefix, CASE r.phase WHEN 'finished' THEN r.result ELSE r.phase END, r.id FROM run_groups g JOIN runs r ON r.id = g.run_id;
INSERT INTO run_states (prefix, state, run_id) SELECT '', CASE phase WHEN 'finished' THEN result ELSE phase END, id FROM runs;
DROP TABLE run_groups;
DROP INDEX runs_phase;
DROP INDEX runs_result;

CREATE INDEX runs_group ON runs (group_path, id);

ALTER TABLE run_details ADD COLUMN restarted_as TEXT NOT NULL DEFAULT ''; -- JSON, oldest first

-- Where the bytes of a batch lie: those of a task that was kept at a restart
-- are the old run's. '' is the run's own.
ALTER TABLE log_batches ADD COLUMN source_run TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE log_batches ADD COLUMN source_task INTEGER NOT NULL DEFAULT 0;
CREATE INDEX log_batches_source ON log_batches (source_run, source_task) WHERE source_run <> '';

-- Batches whose bytes no run names any more.
CREATE TABLE garbage (
    run_id      TEXT COLLATE "C" NOT NULL,
    task        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    dispatch    INTEGER NOT NULL,
    first_frame BIGINT  NOT NULL,
    PRIMARY KEY (run_id, task, attempt, dispatch, first_frame)
);
