-- +goose Up
-- Patterns of the groups whose runs may use the machines of the fleet, as JSON; '' for all
-- groups.
ALTER TABLE fleets ADD COLUMN allowed_groups TEXT NOT NULL DEFAULT '';
