-- +goose Up
-- The change groups that tasks of a run name, as kind task, and those that such a run names
-- itself, as kind mixed_run; done says that the run has ended.
ALTER TABLE runs ADD COLUMN task_groups BOOLEAN NOT NULL DEFAULT FALSE;
CREATE TABLE run_task_groups (
    name   TEXT NOT NULL,
    run_id TEXT NOT NULL,
    kind   TEXT NOT NULL,
    PRIMARY KEY (name, run_id)
) WITHOUT ROWID;
CREATE INDEX run_task_groups_run ON run_task_groups (run_id);
CREATE INDEX run_task_groups_kind ON run_task_groups (name, kind);

-- What tasks hold of change groups, or wait for, until they have ended: state is waiting or
-- holding, since when that state began.
CREATE TABLE task_slots (
    run_id   TEXT    NOT NULL,
    task     INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    units    INTEGER NOT NULL,
    state    TEXT    NOT NULL,
    priority INTEGER NOT NULL,
    since    INTEGER NOT NULL,
    PRIMARY KEY (run_id, task, name)
) WITHOUT ROWID;
CREATE INDEX task_slots_queue ON task_slots (name, state, priority, since, run_id, task, units);
CREATE INDEX task_slots_run ON task_slots (run_id, state, task);

-- Tasks that wait for slots: see ResumeSlotWaits.
CREATE INDEX tasks_changegroup ON tasks (run_id, number) WHERE status = 'waiting_changegroup';
