package oidc

import (
	"strings"

	"github.com/drover-run/drover/run"
)

// maxName bounds the name of a user, in bytes.
const maxName = 200

// claims are the claims of a token, or of the user info of a provider.
type claims map[string]any

// find returns a claim by its name, or by the path to it: Keycloak has
// realm_access.roles.
func (c claims) find(name string) (any, bool) {
	if v, ok := c[name]; ok {
		return v, true
	}
	first, rest, nested := strings.Cut(name, ".")
	if inner, ok := c[first].(map[string]any); ok && nested {
		return claims(inner).find(rest)
	}
	return nil, false
}

// complete reports whether the claims name the user and the groups.
func (p *Provider) complete(c claims) bool {
	_, named := c.find(p.opts.SubjectClaim)
	_, grouped := c.find(p.opts.GroupsClaim)
	if _, verified := c["email_verified"]; p.needsVerification() && !verified {
		return false
	}
	return named && (grouped || p.opts.GroupsClaim == "")
}

// needsVerification reports whether names are addresses that the provider must have
// verified.
func (p *Provider) needsVerification() bool {
	return p.opts.SubjectClaim == "email" && !p.opts.SubjectUnverified
}

// identity returns the identity of the user whom claims describe. Errors: forbidden.
func (p *Provider) identity(subject string, c claims) (run.Identity, error) {
	id := run.Identity{Issuer: p.opts.Issuer, Subject: subject}
	v, _ := c.find(p.opts.SubjectClaim)
	id.Name, _ = v.(string)
	if subject == "" || id.Name == "" || len(id.Name) > maxName || strings.ContainsFunc(id.Name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return id, run.Errorf(run.CodeForbidden, "the identity provider sent no usable claim %q, the name of the user: check gateway.oidc.scopes and gateway.oidc.subject_claim", p.opts.SubjectClaim)
	}
	// A user who may set any address could take the name of another one.
	verified, told := c["email_verified"]
	switch {
	case !p.needsVerification() || verified == true || verified == "true":
	case told:
		return id, run.Errorf(run.CodeForbidden, "the identity provider has not verified the address %s", id.Name)
	default:
		return id, run.Errorf(run.CodeForbidden, "the identity provider does not say whether it has verified the address %s: it sent no claim email_verified. "+
			"Choose another gateway.oidc.subject_claim, or set gateway.oidc.subject_claim_unverified if users cannot change their address", id.Name)
	}
	v, _ = c.find(p.opts.GroupsClaim)
	switch groups := v.(type) {
	case string:
		id.Groups = []string{groups}
	case []any:
		for _, g := range groups {
			if name, ok := g.(string); ok {
				id.Groups = append(id.Groups, name)
			}
		}
	}
	return id, nil
}
