-- +goose Up
-- When a temporary executor was first found to have been offline for too long,
-- since its last sign of life; 0: it was not. It is removed by a second look.
ALTER TABLE executors ADD COLUMN doubted_at INTEGER NOT NULL DEFAULT 0;
