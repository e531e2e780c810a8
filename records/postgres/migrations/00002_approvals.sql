-- +goose Up

-- Who created the run, and who gave the values of its secrets: the two differ in
-- a restart. '' is not known, as of older runs, or several subjects gave secrets.
ALTER TABLE run_details ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
ALTER TABLE run_details ADD COLUMN secrets_by TEXT NOT NULL DEFAULT '';

-- The calls of clients that changed a run after its creation, in their order.
CREATE TABLE run_actions (
    run_id TEXT COLLATE "C" NOT NULL,
    number INTEGER          NOT NULL, -- from 1
    at     BIGINT           NOT NULL,
    action TEXT             NOT NULL,
    actor  TEXT             NOT NULL, -- '' is Drover itself
    task   TEXT             NOT NULL, -- its name, '' for the run
    reason TEXT             NOT NULL,
    PRIMARY KEY (run_id, number)
);

ALTER TABLE events ADD COLUMN action TEXT NOT NULL DEFAULT ''; -- '' if no call of a client caused the event
ALTER TABLE events ADD COLUMN actor TEXT NOT NULL DEFAULT '';

-- When tasks began to wait for approval, and when they are rejected. The row of a
-- task that waits no more has no effect.
CREATE TABLE approval_waits (
    run_id TEXT COLLATE "C" NOT NULL,
    task   INTEGER          NOT NULL,
    since  BIGINT           NOT NULL,
    due_at BIGINT           NOT NULL, -- 0: never
    PRIMARY KEY (run_id, task)
);
CREATE INDEX approval_waits_due ON approval_waits (due_at) WHERE due_at > 0;
CREATE INDEX tasks_approval ON tasks (run_id, number) WHERE status = 'waiting_approval';
