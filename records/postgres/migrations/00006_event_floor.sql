-- +goose Up

-- The greatest number whose event was removed, and the latest time of one that
-- was: one row.
CREATE TABLE event_floor (
    floor BIGINT NOT NULL,
    at    BIGINT NOT NULL
);
INSERT INTO event_floor (floor, at) VALUES (0, 0);
