package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	vault "github.com/hashicorp/vault/api"

	"github.com/drover-run/drover/run"
)

const (
	defaultMount   = "secret"
	defaultAppRole = "approle"
)

// vaultStore provides keys of secrets in a key-value engine, version 2, of
// HashiCorp Vault.
type vaultStore struct {
	client   *vault.Client
	settings settings

	mu       sync.Mutex
	loggedIn bool
}

func newVault(x settings) (Provider, error) {
	if (x.TokenFile == "") == (x.AppRole == nil) {
		return nil, errors.New("it needs either token_file or approle, to log in")
	}
	if a := x.AppRole; a != nil {
		if a.RoleID == "" || a.SecretIDFile == "" {
			return nil, errors.New("approle needs role_id and secret_id_file")
		}
		if a.Mount == "" {
			a.Mount = defaultAppRole
		}
	}
	if x.Mount == "" {
		x.Mount = defaultMount
	}
	config := vault.DefaultConfig() // reads Vault's own variables: VAULT_ADDR, VAULT_CACERT
	if config.Error != nil {
		return nil, fmt.Errorf("read Vault's variables: %w", config.Error)
	}
	if x.Address != "" {
		config.Address = x.Address
	}
	if x.CAFile != "" {
		if err := config.ConfigureTLS(&vault.TLSConfig{CACert: x.CAFile}); err != nil {
			return nil, fmt.Errorf("read ca_cert_file: %w", err)
		}
	}
	client, err := vault.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("create a client of Vault: %w", err)
	}
	client.ClearToken() // VAULT_TOKEN is not meant for runs
	if x.Namespace != "" {
		client.SetNamespace(x.Namespace)
	}
	return &vaultStore{client: client, settings: x}, nil
}

// Check implements Provider.
func (*vaultStore) Check(ref run.SecretRef) error {
	if ref.Key == "" {
		return run.Errorf(run.CodeInvalid, "a secret of Vault is named by name and key")
	}
	return nil
}

// Get implements Provider.
func (v *vaultStore) Get(ctx context.Context, ref run.SecretRef) (run.Secret, error) {
	if err := v.Check(ref); err != nil {
		return "", err
	}
	fresh, err := v.login(ctx, false)
	if err != nil {
		return "", err
	}
	secret, err := v.read(ctx, ref)
	if statusOf(err) == http.StatusForbidden && !fresh {
		// The token may have expired: try once more with a new one.
		if _, err := v.login(ctx, true); err != nil {
			return "", err
		}
		secret, err = v.read(ctx, ref)
	}
	path := v.settings.Mount + "/" + v.settings.Prefix + ref.Name
	switch {
	case errors.Is(err, vault.ErrSecretNotFound):
		return "", run.Errorf(run.CodeNotFound, "Vault has no %s", path)
	case statusOf(err) == http.StatusForbidden:
		return "", run.Errorf(run.CodeForbidden, "Vault does not let the gateway read %s", path)
	case err != nil:
		return "", vaultError(ctx, err)
	}
	return valueOf(secret, path, ref.Key)
}

func (v *vaultStore) read(ctx context.Context, ref run.SecretRef) (*vault.KVSecret, error) {
	return v.client.KVv2(v.settings.Mount).Get(ctx, v.settings.Prefix+ref.Name)
}

// login sets a token in the client, and reports whether it is a new one.
func (v *vaultStore) login(ctx context.Context, again bool) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.loggedIn && !again {
		return false, nil
	}
	token, err := v.token(ctx)
	if err != nil {
		return false, err
	}
	v.client.SetToken(token)
	v.loggedIn = true
	return true, nil
}

func (v *vaultStore) token(ctx context.Context) (string, error) {
	a := v.settings.AppRole
	if a == nil {
		return readLine(v.settings.TokenFile)
	}
	id, err := readLine(a.SecretIDFile)
	if err != nil {
		return "", err
	}
	answer, err := v.client.Logical().WriteWithContext(ctx, "auth/"+a.Mount+"/login", map[string]any{"role_id": a.RoleID, "secret_id": id})
	switch status := statusOf(err); {
	case status == http.StatusBadRequest || status == http.StatusForbidden:
		return "", run.Errorf(run.CodeForbidden, "Vault refuses the gateway's role")
	case err != nil:
		return "", vaultError(ctx, err)
	case answer == nil || answer.Auth == nil:
		return "", run.Errorf(run.CodeUnavailable, "the login at Vault returned no token")
	}
	return answer.Auth.ClientToken, nil
}

// valueOf returns a key's value: a text unchanged, any other value as JSON.
func valueOf(secret *vault.KVSecret, path, key string) (run.Secret, error) {
	value, ok := secret.Data[key]
	switch {
	case secret.Data == nil:
		return "", run.Errorf(run.CodeNotFound, "the newest version of %s was deleted from Vault", path)
	case !ok:
		return "", run.Errorf(run.CodeNotFound, "%s has no key %q", path, key)
	}
	if text, ok := value.(string); ok {
		return run.Secret(text), nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", run.Errorf(run.CodeInternal, "the key %q of %s cannot be written as JSON", key, path)
	}
	return run.Secret(text), nil
}

func statusOf(err error) int {
	if answer, ok := errors.AsType[*vault.ResponseError](err); ok {
		return answer.StatusCode
	}
	return 0
}

// vaultError returns an error for a failure that may be temporary.
func vaultError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return run.Errorf(run.CodeUnavailable, "read from Vault: %w", err)
}

func readLine(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", run.Errorf(run.CodeUnavailable, "read the credentials for Vault: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
