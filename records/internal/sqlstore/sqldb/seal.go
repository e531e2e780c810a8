package sqldb

import (
	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// A label binds a sealed value to its row: a value sealed for one row cannot be
// opened for another.

// RunLabel is the label of a run's secrets.
func RunLabel(id run.ID) string { return "run/" + string(id) }

// ScheduleLabel is the label of a schedule's secrets.
func ScheduleLabel(name string) string { return "schedule/" + name }

// WebhookLabel is the label of a webhook's secret.
func WebhookLabel(name string) string { return "webhook/" + name }

// FleetLabel is the label of a fleet's secrets.
func FleetLabel(name string) string { return "fleet/" + name }

// FleetRevisionLabel is the label of the settings of a revision of a fleet.
func FleetRevisionLabel(id string) string { return "fleet-revision/" + id }

// ServiceLabel is the label of a secret of the service itself.
func ServiceLabel(name string) string { return "service/" + name }

// SecretsText returns the text of secrets to be sealed; "" if there are none.
func SecretsText(secrets map[string]run.Secret) (string, error) {
	if len(secrets) == 0 {
		return "", nil
	}
	shown := make(map[string]string, len(secrets))
	for name, secret := range secrets {
		shown[name] = secret.Reveal()
	}
	return Marshal(shown)
}

// OpenSecrets decrypts stored secrets; "" means that there are none.
func OpenSecrets(keys *keyring.Ring, label, stored string, into *map[string]run.Secret) error {
	if stored == "" {
		return nil
	}
	text, err := keys.Open(label, stored)
	if err != nil {
		return run.Errorf(run.CodeInternal, "the secrets of %s cannot be read: %w", label, err)
	}
	return Unmarshal(text, into)
}

// OpenWebhook decrypts the secret of a webhook.
func OpenWebhook(keys *keyring.Ring, d *records.Delivery) error {
	text, err := keys.Open(WebhookLabel(d.Name), d.Secret.Reveal())
	if err != nil {
		return run.Errorf(run.CodeInternal, "the secret of %s cannot be read: %w", WebhookLabel(d.Name), err)
	}
	d.Secret = run.Secret(text)
	return nil
}
