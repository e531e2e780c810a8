package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/tokens/oidc"
)

// openProvider returns the OpenID Connect provider of a gateway, nil if it has none.
func openProvider(cfg config.OIDC, logger *slog.Logger) (*oidc.Provider, error) {
	if cfg.Issuer == "" {
		return nil, nil //nolint:nilnil // nil means no provider
	}
	authorities, err := process.Authorities(cfg.CAFile, "", logger)
	if err != nil {
		return nil, err
	}
	var transport http.RoundTripper
	if cfg.CAFile != "" {
		own := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // net/http says so
		own.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&tls.Dialer{Config: authorities()}).DialContext(ctx, network, address) // the file may have been replaced
		}
		transport = own
	}
	var granted roles.Subjects
	if cfg.RolesFile != "" {
		if granted, err = roles.OpenFile(cfg.RolesFile, logger); err != nil {
			return nil, fmt.Errorf("gateway.oidc.roles_file: %w", err)
		}
	}
	return oidc.New(oidc.Options{
		Issuer: cfg.Issuer, Name: cfg.Name, ClientID: cfg.ClientID, ClientSecretFile: cfg.ClientSecretFile, DeviceClientID: cfg.DeviceClientID,
		Audiences: cfg.Audiences, Scopes: cfg.Scopes, SubjectClaim: cfg.SubjectClaim, SubjectPrefix: cfg.SubjectPrefix, SubjectUnverified: cfg.SubjectClaimUnverified, GroupsClaim: cfg.GroupsClaim,
		Bindings: cfg.Bindings, Roles: granted, Transport: transport,
	})
}
