package webhooks

import (
	"cmp"
	"reflect"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// specRow is the specification of a webhook as its row stores it.
type specRow struct {
	url, secret, events, settings string
	format                        run.WebhookFormat
}

// sealSpec returns the row of a specification. It keeps the secret of prev, the
// existing webhook, if w gives none. prev is nil for a new webhook.
func sealSpec(t *sqldb.Tx, prev *records.Delivery, w run.WebhookSpec) (row specRow, err error) {
	row.url, row.format = w.URL, cmp.Or(w.Format, run.WebhookDrover)
	if row.events, err = sqldb.Marshal(w.Events); err != nil {
		return row, err
	}
	if !reflect.ValueOf(w.WebhookSettings).IsZero() {
		if row.settings, err = sqldb.Marshal(w.WebhookSettings); err != nil {
			return row, err
		}
	}
	secret := w.Secret.Reveal()
	keeps := secret == ""
	switch {
	case row.format.SecretURL():
		keeps = run.IsHiddenURL(w.URL)
		secret, row.url = w.URL, run.HiddenURL(w.URL)
	case row.format == run.WebhookEmail && username(w.Email) == "":
		keeps = false // there is no password
	}
	if !keeps {
		row.secret = t.Keys.Seal(sqldb.WebhookLabel(w.Name), secret)
		return row, nil
	}
	if fault := keepFault(prev, row, w); fault.Path != "" {
		return row, run.InvalidError("the webhook is not valid", []run.Fault{fault})
	}
	row.secret = prev.Secret.Reveal()
	return row, nil
}

// keepFault returns why the secret of prev cannot be kept for w. A password is
// never sent to another server than the one that it was given for.
func keepFault(prev *records.Delivery, row specRow, w run.WebhookSpec) run.Fault {
	known := prev != nil && prev.Format == row.format
	required := func(path run.Path, detail string) run.Fault {
		return run.Fault{Path: string(path), Code: run.FaultRequired, Detail: detail}
	}
	switch {
	case row.format.SecretURL() && (!known || prev.URL != w.URL):
		return required("url", "the URL is a secret that Drover has only for an existing webhook with the same host: give the whole URL")
	case row.format == run.WebhookEmail && (!known || username(prev.Email) != username(w.Email) || prev.URL != w.URL):
		return required("secret", "the password is needed for a new mail server or user")
	case row.format == run.WebhookDrover && !known:
		return required("secret", "a new webhook needs a secret, which signs its deliveries")
	}
	return run.Fault{}
}

func username(e *run.Email) string {
	if e == nil {
		return ""
	}
	return e.Username
}
