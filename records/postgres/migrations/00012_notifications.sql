-- +goose Up
-- The form of a webhook's deliveries. Of slack and teams the column secret has the
-- URL of the receiver, and the column url only its host; of email the column secret
-- has the password of the mail server.
ALTER TABLE webhooks ADD COLUMN format TEXT NOT NULL DEFAULT 'drover';
ALTER TABLE webhooks ADD COLUMN settings TEXT NOT NULL DEFAULT ''; -- JSON: run.WebhookSettings; '' for none
-- Samples that clients requested: the number of requests, the one that was answered
-- last, and its outcome.
ALTER TABLE webhooks ADD COLUMN test_requested BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhooks ADD COLUMN test_done BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhooks ADD COLUMN test_error TEXT NOT NULL DEFAULT '';
ALTER TABLE webhooks ADD COLUMN test_at BIGINT NOT NULL DEFAULT 0;
