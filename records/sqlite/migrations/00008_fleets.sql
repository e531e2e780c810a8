-- +goose Up
CREATE TABLE fleets (
    name TEXT PRIMARY KEY,
    config TEXT NOT NULL,               -- JSON, but for what may hold credentials
    secrets TEXT NOT NULL DEFAULT '',   -- JSON of plugin_config and connector_config, sealed
    mode TEXT NOT NULL,                 -- active, paused, draining, deleting, deleted
    desired INTEGER NOT NULL DEFAULT -1, -- instances, given by hand; -1: the policy says
    reason TEXT NOT NULL DEFAULT '',
    quota TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL DEFAULT '',    -- JSON: what its worker saw last
    created_at INTEGER NOT NULL,             -- nanoseconds; likewise below
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    last_number INTEGER NOT NULL DEFAULT 0,  -- of an instance
    last_event INTEGER NOT NULL DEFAULT 0,
    memory TEXT NOT NULL DEFAULT ''         -- JSON: what one decision tells the next
);

-- The ledger: a row for every machine that a fleet asked for or came to know.
CREATE TABLE fleet_instances (
    fleet TEXT NOT NULL,
    number INTEGER NOT NULL,
    instance TEXT NOT NULL DEFAULT '',  -- the plugin's name of it
    request TEXT NOT NULL DEFAULT '',
    told BOOLEAN NOT NULL DEFAULT FALSE, -- the plugin has answered the request
    cause TEXT NOT NULL,
    state TEXT NOT NULL,
    why TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    executor TEXT NOT NULL DEFAULT '',
    uses INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0, -- health checks in a row
    asked_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL DEFAULT 0,
    running_at INTEGER NOT NULL DEFAULT 0,
    ready_at INTEGER NOT NULL DEFAULT 0,
    draining_at INTEGER NOT NULL DEFAULT 0,
    deleting_at INTEGER NOT NULL DEFAULT 0,
    gone_at INTEGER NOT NULL DEFAULT 0,
    last_used INTEGER NOT NULL DEFAULT 0,
    missing_from INTEGER NOT NULL DEFAULT 0,
    misses INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (fleet, number)
);
CREATE INDEX fleet_instances_present ON fleet_instances (fleet, number) WHERE state <> 'gone';

CREATE TABLE fleet_events (
    fleet TEXT NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    instance INTEGER NOT NULL DEFAULT 0, -- number of a row of the ledger
    name TEXT NOT NULL DEFAULT '',
    actor TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    text TEXT NOT NULL,
    PRIMARY KEY (fleet, number)
);

-- The instance that an executor is, and how many tasks it may take in its life.
ALTER TABLE executors ADD COLUMN fleet TEXT NOT NULL DEFAULT '';    -- '' for none
ALTER TABLE executors ADD COLUMN instance TEXT NOT NULL DEFAULT '';
ALTER TABLE executors ADD COLUMN uses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executors ADD COLUMN max_uses INTEGER NOT NULL DEFAULT 0; -- 0: no limit
CREATE INDEX executors_fleet ON executors (fleet) WHERE fleet <> '' AND NOT removed;
