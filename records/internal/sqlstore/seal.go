package sqlstore

import (
	"context"

	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// These labels bind sealed values to their rows: a value sealed for one row
// cannot be opened for another.
func runLabel(id run.ID) string        { return "run/" + string(id) }
func scheduleLabel(name string) string { return "schedule/" + name }
func webhookLabel(name string) string  { return "webhook/" + name }
func fleetLabel(name string) string    { return "fleet/" + name }
func serviceLabel(name string) string  { return "service/" + name }

// secretsText returns the text of secrets to be sealed; "" if there are none.
func secretsText(secrets map[string]run.Secret) (string, error) {
	if len(secrets) == 0 {
		return "", nil
	}
	shown := make(map[string]string, len(secrets))
	for name, secret := range secrets {
		shown[name] = secret.Reveal()
	}
	return marshal(shown)
}

// openSecrets decrypts stored secrets; "" means that there are none.
func openSecrets(keys *keyring.Ring, label, stored string, into *map[string]run.Secret) error {
	if stored == "" {
		return nil
	}
	text, err := keys.Open(label, stored)
	if err != nil {
		return run.Errorf(run.CodeInternal, "the secrets of %s cannot be read: %w", label, err)
	}
	return unmarshal(text, into)
}

// openWebhook decrypts the secret of a webhook.
func openWebhook(keys *keyring.Ring, d *records.Delivery) error {
	text, err := keys.Open(webhookLabel(d.Name), d.Secret.Reveal())
	if err != nil {
		return run.Errorf(run.CodeInternal, "the secret of %s cannot be read: %w", webhookLabel(d.Name), err)
	}
	d.Secret = run.Secret(text)
	return nil
}

// sealedColumns returns the columns that hold sealed values.
func sealedColumns() []sealedColumn {
	return []sealedColumn{
		{"run_secrets", "run_id", "secrets", func(key string) string { return runLabel(run.ID(key)) }},
		{"schedule_secrets", "schedule", "secrets", scheduleLabel},
		{"webhooks", "name", "secret", webhookLabel},
		{"fleets", "name", "secrets", fleetLabel},
		{"service_keys", "name", "value", serviceLabel},
	}
}

type sealedColumn struct {
	table, key, column string
	label              func(key string) string
}

// Reencrypt implements records.Store.
func (s *Store) Reencrypt(ctx context.Context, n int) (done int, err error) {
	current := s.keys.Current()
	if current == "" {
		return 0, run.Errorf(run.CodeInvalid, "there is no key to seal with")
	}
	err = s.write(ctx, "reencrypt secrets", func(t *tx) error {
		done = 0
		for _, c := range sealedColumns() {
			left := n - done
			if left == 0 {
				return nil
			}
			stored := map[string]string{}
			// substr compares bytes, which LIKE does not do in all databases.
			if err := each(ctx, t, func(row scanner) error {
				var key, value string
				err := row.Scan(&key, &value)
				stored[key] = value
				return err
			}, `SELECT `+c.key+`, `+c.column+` FROM `+c.table+` WHERE substr(`+c.column+`, 1, ?) <> ? ORDER BY `+c.key+` LIMIT ?`+t.dialect.ForUpdate,
				len(current), current, left); err != nil {
				return err
			}
			for key, prev := range stored {
				text, err := s.keys.Open(c.label(key), prev)
				if err != nil {
					return run.Errorf(run.CodeInternal, "%s cannot be read: %w", c.label(key), err)
				}
				if _, err := t.Exec(ctx, `UPDATE `+c.table+` SET `+c.column+` = ? WHERE `+c.key+` = ?`,
					s.keys.Seal(c.label(key), text), key); err != nil {
					return err
				}
			}
			done += len(stored)
		}
		return nil
	})
	return done, err
}
