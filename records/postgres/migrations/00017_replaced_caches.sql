-- +goose Up
-- Until when the object of a replaced cache can be read, by steps that found the cache
-- before.
ALTER TABLE archive_objects ADD COLUMN readable_until BIGINT NOT NULL DEFAULT 0;
