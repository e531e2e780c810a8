-- +goose Up
-- Runs by their name and by who created them, in their order.
CREATE INDEX runs_name ON runs (name, id);
CREATE INDEX run_details_created_by ON run_details (created_by, run_id);
