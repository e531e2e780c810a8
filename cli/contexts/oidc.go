package contexts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"golang.org/x/oauth2"

	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/run"
)

// deviceLogin logs in at the identity provider of a gateway by the device flow (RFC
// 8628), and stores the login at path. It returns the name of the user.
func deviceLogin(ctx context.Context, env session.Env, server, caCert, path string) (string, error) {
	gateway, err := session.Connect(env, server, "", caCert)
	if err != nil {
		return "", err
	}
	options, err := gateway.LoginOptions(ctx)
	if err != nil {
		return "", err
	}
	provider := options.Value.Provider
	if provider.Issuer == "" || provider.DeviceClientID == "" {
		return "", run.Errorf(run.CodeNotSupported, "%s has no identity provider for the command line (gateway.oidc.device_client_id): log in with a token", server)
	}
	transport, err := session.Transport(env, server, caCert)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: transport}
	metadata, err := session.Discover(ctx, client, provider.Issuer)
	if err != nil {
		return "", err
	}
	config := oauth2.Config{
		ClientID: provider.DeviceClientID, Scopes: append([]string{"openid"}, provider.Scopes...),
		Endpoint: oauth2.Endpoint{DeviceAuthURL: metadata.DeviceURL, TokenURL: metadata.TokenURL, AuthStyle: oauth2.AuthStyleInParams},
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, client)
	device, err := config.DeviceAuth(ctx)
	if err != nil {
		return "", providerError(err)
	}
	text := fmt.Sprintf("To log in with %s, open %s and enter the code %s\n", provider.Name, device.VerificationURI, device.UserCode)
	if device.VerificationURIComplete != "" {
		text += fmt.Sprintf("or open %s\n", device.VerificationURIComplete)
	}
	if _, err := fmt.Fprint(env.Stderr, text); err != nil {
		return "", err
	}
	answer, err := config.DeviceAccessToken(ctx, device)
	if err != nil {
		return "", providerError(err)
	}
	login, err := session.NewLogin(provider.Issuer, provider.DeviceClientID, metadata.TokenURL, answer)
	if err != nil {
		return "", err
	}
	gateway, err = session.Connect(env, server, login.IDToken, caCert)
	if err != nil {
		return "", err
	}
	user, err := gateway.Session(ctx) // the gateway may know the user, and give no access
	if err != nil {
		return "", err
	}
	if err := durable.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("store the login: %w", err)
	}
	return user.Value.Subject, login.Write(path)
}

// providerError returns the error of a call of the identity provider.
func providerError(err error) error {
	refusal, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok || refusal.ErrorCode == "":
		return run.Errorf(run.CodeUnavailable, "log in at the identity provider: %w", err)
	case refusal.ErrorCode == "expired_token":
		return run.Errorf(run.CodeUnauthenticated, "the code has expired: log in again")
	case refusal.ErrorCode == "access_denied":
		return run.Errorf(run.CodeUnauthenticated, "the login was refused at the identity provider")
	}
	return run.Errorf(run.CodeUnauthenticated, "the identity provider refused the login: %s %s", refusal.ErrorCode, refusal.ErrorDescription)
}
