-- +goose Up
-- The runs that succeeded with warnings, and those with an input of a value that lists find,
-- in their order. Older processes write neither, and leave the rows of runs that they delete.
CREATE TABLE run_warnings (
    run_id TEXT COLLATE "C" NOT NULL PRIMARY KEY
);
CREATE TABLE run_inputs (
    name   TEXT COLLATE "C" NOT NULL,
    value  TEXT COLLATE "C" NOT NULL, -- of at most 1,024 bytes
    run_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (name, value, run_id)
);

INSERT INTO run_warnings (run_id)
SELECT id FROM runs WHERE phase = 'finished' AND result = 'success' AND strpos(counts, '"failed":') > 0;
INSERT INTO run_inputs (name, value, run_id)
SELECT i.key, i.value, d.run_id FROM run_details d, json_each_text(d.header::json -> 'input_values') i
WHERE strpos(d.header, '"input_values":{') > 0 AND octet_length(i.value) <= 1024;
