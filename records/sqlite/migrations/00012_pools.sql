-- +goose Up
-- The pool of a fleet, as in its config: the fleets of one pool divide its demand.
ALTER TABLE fleets ADD COLUMN pool TEXT NOT NULL DEFAULT '';
UPDATE fleets SET pool = coalesce(json_extract(config, '$.pool'), '');
CREATE INDEX fleets_pool ON fleets (pool);

-- Runs that must not use the images of each other have its hosts in common.
ALTER TABLE pools ADD COLUMN shared BOOLEAN NOT NULL DEFAULT FALSE;
