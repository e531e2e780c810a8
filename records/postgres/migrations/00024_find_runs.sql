-- +goose Up
-- Runs by their name and by who created them, in their order.
-- Creations of runs wait until the indexes are made; docs/upgrades.md says how to make
-- them beforehand.
CREATE INDEX IF NOT EXISTS runs_name ON runs (name, id);
CREATE INDEX IF NOT EXISTS run_details_created_by ON run_details (created_by, run_id);
