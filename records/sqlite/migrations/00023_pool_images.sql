-- +goose Up
-- Patterns of the images that tasks of the pool may use, and its pull policies, as JSON;
-- '' for all.
ALTER TABLE pools ADD COLUMN images TEXT NOT NULL DEFAULT '';
