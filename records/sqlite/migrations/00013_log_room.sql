-- +goose Up
-- What is left of the budget of a dispatch's log after the batch; NULL: there is
-- no bound.
ALTER TABLE log_batches ADD COLUMN room INTEGER;
