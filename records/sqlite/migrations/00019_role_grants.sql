-- +goose Up
-- Named lists of grants, which give roles in groups to the users of an identity provider.
CREATE TABLE role_grants (
    name       TEXT    NOT NULL PRIMARY KEY,
    issuer     TEXT    NOT NULL, -- the provider whose users the grants are for
    grants     TEXT    NOT NULL, -- JSON: a list of run.RoleGrant
    note       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT    NOT NULL
);

-- The last version of any list. A change locks the row, so changes are in order.
CREATE TABLE role_grant_versions (
    id   INTEGER NOT NULL PRIMARY KEY,
    last INTEGER NOT NULL
);
INSERT INTO role_grant_versions (id, last) VALUES (1, 0);
