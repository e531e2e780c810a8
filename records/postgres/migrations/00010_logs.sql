-- +goose Up

-- A row is a batch as it came, or all of them up to last_frame in one packed
-- object. A packed log in turn may be packed again, with the batches after it.
ALTER TABLE log_batches ADD COLUMN packed BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE log_batches ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;    -- of the object, as it is stored
ALTER TABLE log_batches ADD COLUMN outline TEXT NOT NULL DEFAULT ''; -- JSON: what is in a batch; '' is not known

-- Logs that are not packed yet.
CREATE TABLE log_packing (
    run_id   TEXT COLLATE "C" NOT NULL,
    task     INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    dispatch INTEGER NOT NULL,
    due_at   BIGINT NOT NULL,           -- 0: when its last frame has come; later than now: the end of a lease
    upto     BIGINT NOT NULL DEFAULT 0, -- the last frame of an object whose write may have begun; 0 for none
    PRIMARY KEY (run_id, task, attempt, dispatch)
);
CREATE INDEX log_packing_due ON log_packing (due_at) WHERE due_at > 0;
INSERT INTO log_packing (run_id, task, attempt, dispatch, due_at)
    SELECT run_id, task, attempt, dispatch, MAX(CASE WHEN task_end THEN 1 ELSE 0 END) FROM log_batches WHERE source_run = ''
    GROUP BY run_id, task, attempt, dispatch HAVING COUNT(*) > 1 OR MAX(CASE WHEN task_end THEN 1 ELSE 0 END) = 0;

-- Tasks whose logs were removed; -1 stands for all of a run.
CREATE TABLE expired_logs (
    run_id TEXT COLLATE "C" NOT NULL,
    task   INTEGER NOT NULL,
    PRIMARY KEY (run_id, task)
);
