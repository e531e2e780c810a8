-- +goose Up

-- The specification of a run with its references to inputs, for a restart with
-- other values: JSON without secrets and annotations, or empty if it has none.
-- The header and task_specs have the values in place of the references.
ALTER TABLE run_details ADD COLUMN source TEXT NOT NULL DEFAULT '';
