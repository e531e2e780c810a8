-- +goose Up

-- The greatest number whose event was removed, and the latest time of one that
-- was: one row.
CREATE TABLE event_floor (
    floor INTEGER NOT NULL,
    at    INTEGER NOT NULL
);
INSERT INTO event_floor (floor, at) VALUES (0, 0);
