package tokens

import (
	"strings"
	"unicode"

	"github.com/drover-run/drover/run"
)

// localSubject is the subject of clients without a token.
const localSubject = "local"

// CheckName refuses names that no new token may have. userPrefix is what the names of a
// provider's users begin with, "" if they have no prefix. Errors: invalid.
func CheckName(name, userPrefix string) error {
	if err := CheckForm(name); err != nil {
		return err
	}
	if why := reserved(name, userPrefix); why != "" {
		return run.Errorf(run.CodeInvalid, "the name %q is reserved: %s", name, why)
	}
	return nil
}

// CheckForm refuses names that are too long, or have control characters. Errors: invalid.
func CheckForm(name string) error {
	if len(name) > run.MaxNameLength || strings.ContainsFunc(name, unicode.IsControl) {
		return run.Errorf(run.CodeInvalid, "the name of a token has at most %d bytes, and no control characters", run.MaxNameLength)
	}
	return nil
}

// reserved returns why no new token may have a name, or "": other subjects have such names.
func reserved(name, userPrefix string) string {
	switch {
	case name == localSubject:
		return "it is the subject of clients of a gateway without tokens"
	case strings.HasPrefix(name, "schedule:"):
		return "runs of schedules have subjects that begin with schedule:"
	case userPrefix != "" && strings.HasPrefix(name, userPrefix):
		return "users of the identity provider have subjects that begin with " + userPrefix + " (gateway.oidc.subject_prefix)"
	default:
		return ""
	}
}
