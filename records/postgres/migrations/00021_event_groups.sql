-- +goose Up
-- The events of a group, in their order: readers of few groups do not look at the events
-- of all others.
-- Writes wait until the index is made; docs/upgrades.md says how to make it beforehand.
CREATE INDEX IF NOT EXISTS events_group ON events (group_path, number);
