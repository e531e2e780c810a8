package config

import (
	"net/url"
	"slices"
	"strings"
	"time"
)

// OIDC configures the OpenID Connect provider whose users may use the gateway.
type OIDC struct {
	// Issuer is the URL of the provider; "" means that there is none.
	Issuer string `koanf:"issuer" yaml:"issuer"`
	// Name is what the login page calls the provider.
	Name string `koanf:"name" yaml:"name"`
	// ClientID and ClientSecretFile identify the gateway at the provider. Without the
	// file it is a public client.
	ClientID         string `koanf:"client_id" yaml:"client_id"`
	ClientSecretFile string `koanf:"client_secret_file" yaml:"client_secret_file"`
	// DeviceClientID is the public client of `drover login --oidc`; "" disables it.
	DeviceClientID string `koanf:"device_client_id" yaml:"device_client_id"`
	// Audiences are the audiences of accepted tokens, besides the clients.
	Audiences []string `koanf:"audiences" yaml:"audiences"`
	// CAFile has the certificate authorities of the provider; "" means those of the host.
	CAFile string `koanf:"ca_file" yaml:"ca_file"`
	// Scopes are what the login asks for, besides openid.
	Scopes []string `koanf:"scopes" yaml:"scopes"`
	// SubjectClaim has the name of a user, which gets SubjectPrefix, and GroupsClaim the
	// groups.
	SubjectClaim  string `koanf:"subject_claim" yaml:"subject_claim"`
	SubjectPrefix string `koanf:"subject_prefix" yaml:"subject_prefix"`
	// SubjectClaimUnverified accepts a claim email without email_verified.
	SubjectClaimUnverified bool   `koanf:"subject_claim_unverified" yaml:"subject_claim_unverified"`
	GroupsClaim            string `koanf:"groups_claim" yaml:"groups_claim"`
	// Bindings give scopes to users: user:NAME=SCOPE, group:NAME=SCOPE, *=SCOPE.
	Bindings []string `koanf:"bindings" yaml:"bindings"`
	// RolesFile lists the grants of roles in groups to users without scopes; "" means none.
	RolesFile string `koanf:"roles_file" yaml:"roles_file"`
	// ConfirmEvery is how often the provider is asked whether a login is still valid, and
	// ConfirmGrace how long one is valid without its answer.
	ConfirmEvery time.Duration `koanf:"confirm_every" yaml:"confirm_every"`
	ConfirmGrace time.Duration `koanf:"confirm_grace" yaml:"confirm_grace"`
}

func defaultOIDC() OIDC {
	return OIDC{
		Name: "single sign-on", Audiences: []string{}, Scopes: []string{"profile", "email"}, SubjectClaim: "email", SubjectPrefix: "oidc:",
		GroupsClaim: "groups", Bindings: []string{}, ConfirmEvery: 10 * time.Minute, ConfirmGrace: time.Hour,
	}
}

func (o OIDC) validate(v *validator) {
	if o.Issuer == "" {
		if o.ClientID != "" || len(o.Bindings) > 0 || o.RolesFile != "" {
			v.fail("gateway.oidc.issuer", "is required by the other settings of gateway.oidc")
		}
		return
	}
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		v.fail("gateway.oidc.issuer", "not an https URL such as https://login.example.com")
	}
	v.required("gateway.oidc.client_id", o.ClientID)
	v.required("gateway.oidc.subject_claim", o.SubjectClaim)
	v.required("gateway.oidc.name", o.Name)
	for _, binding := range o.Bindings {
		i := strings.LastIndexByte(binding, '=')
		who, scope := binding[:max(i, 0)], binding[i+1:]
		name := strings.TrimPrefix(strings.TrimPrefix(who, "user:"), "group:")
		if who != "*" && (name == who || name == "") || !slices.Contains([]string{"read", "write", "exec", "admin"}, scope) {
			v.fail("gateway.oidc.bindings", "%q is not of the form user:NAME=SCOPE, group:NAME=SCOPE or *=SCOPE, with read, write, exec or admin", binding)
		}
		if who == "*" && o.RolesFile != "" {
			v.fail("gateway.oidc.bindings", "%q gives a scope to all users, so no role of gateway.oidc.roles_file would have an effect: grant a role to the subject \"*\" there", binding)
		}
	}
	if o.ConfirmEvery < 10*time.Second || o.ConfirmGrace < o.ConfirmEvery {
		v.fail("gateway.oidc.confirm_every", "must be at least 10s and at most gateway.oidc.confirm_grace")
	}
}
