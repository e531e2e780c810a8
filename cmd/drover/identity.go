package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/tokens/oidc"
	"github.com/drover-run/drover/run"
)

// addProvider returns the OpenID Connect provider of a gateway, and the grants of roles to
// its users. Both are nil if the gateway has no provider.
func (p parts) addProvider(ctx context.Context, cfg config.OIDC, s *stores) (*oidc.Provider, run.RoleGrantsAPI, error) {
	if cfg.Issuer == "" {
		return nil, nil, nil
	}
	opts := roles.GrantsOptions{Issuer: cfg.Issuer, UserPrefix: cfg.SubjectPrefix}
	if cfg.RolesFile != "" {
		var err error
		if opts.File, err = roles.OpenFile(cfg.RolesFile, cfg.SubjectPrefix, p.Logger); err != nil {
			return nil, nil, fmt.Errorf("gateway.oidc.roles_file: %w", err)
		}
	}
	for _, binding := range cfg.Bindings {
		if strings.HasPrefix(binding, "*=") {
			opts.Overridden = fmt.Sprintf("%q in gateway.oidc.bindings", binding)
		}
	}
	granted := roles.NewGrants(ctx, s.records, p.Logger, opts)
	provider, err := openProvider(cfg, granted, p.Logger)
	if err != nil {
		return nil, nil, err
	}
	p.Stages.Add("role grants", granted.Run)
	return provider, granted, nil
}

// openProvider returns the OpenID Connect provider of a gateway.
func openProvider(cfg config.OIDC, granted roles.Subjects, logger *slog.Logger) (*oidc.Provider, error) {
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
	return oidc.New(oidc.Options{
		Issuer: cfg.Issuer, Name: cfg.Name, ClientID: cfg.ClientID, ClientSecretFile: cfg.ClientSecretFile, DeviceClientID: cfg.DeviceClientID,
		Audiences: cfg.Audiences, Scopes: cfg.Scopes, SubjectClaim: cfg.SubjectClaim, SubjectPrefix: cfg.SubjectPrefix, SubjectUnverified: cfg.SubjectClaimUnverified, GroupsClaim: cfg.GroupsClaim,
		Bindings: cfg.Bindings, Roles: granted, Transport: transport, Logger: logger,
	})
}
