-- +goose Up
-- The events of a group, in their order: readers of few groups do not look at the events
-- of all others.
CREATE INDEX events_group ON events (group_path, number);
