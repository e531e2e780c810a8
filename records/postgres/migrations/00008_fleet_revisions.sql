-- +goose Up

-- A change of the settings that determine what an instance is, is a new revision.
ALTER TABLE fleets ADD COLUMN revision BIGINT NOT NULL DEFAULT 1;
ALTER TABLE fleets ADD COLUMN rollout_since BIGINT NOT NULL DEFAULT 0; -- when the revision became current, or its rollout was resumed
ALTER TABLE fleets ADD COLUMN rollout_paused BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE fleet_instances ADD COLUMN revision BIGINT NOT NULL DEFAULT 1;

-- The last revisions of each fleet. A fleet that has not changed since it was
-- created by an earlier version of Drover has no row.
CREATE TABLE fleet_revisions (
    id         TEXT   PRIMARY KEY, -- fleet@number, to which settings are bound
    fleet      TEXT   NOT NULL,
    number     BIGINT NOT NULL,
    settings   TEXT   NOT NULL,    -- JSON, encrypted if there is a key
    created_at BIGINT NOT NULL,
    actor      TEXT   NOT NULL
);
CREATE UNIQUE INDEX fleet_revisions_number ON fleet_revisions (fleet, number);
