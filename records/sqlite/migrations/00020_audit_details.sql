-- +goose Up
-- The rights that the call gives; empty for other calls.
ALTER TABLE audit_records ADD COLUMN details TEXT NOT NULL DEFAULT '';
