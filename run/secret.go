package run

import (
	"log/slog"
	"maps"
	"slices"
)

// Secret is a value that must not be shown. It prints, logs and marshals as a
// placeholder; Reveal returns the value. Only the records store and the
// hand-over to an executor write the value out, through Reveal.
type Secret string

const redacted = "[redacted]"

// HiddenSecret stands for the value of a secret in a specification that is read
// back. It is not a valid value.
const HiddenSecret Secret = redacted

// String implements fmt.Stringer with a placeholder.
func (Secret) String() string { return redacted }

// GoString implements fmt.GoStringer with a placeholder.
func (Secret) GoString() string { return redacted }

// LogValue implements slog.LogValuer with a placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler with a placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText implements encoding.TextUnmarshaler: it sets the value.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = Secret(b)
	return nil
}

// Reveal returns the value.
func (s Secret) Reveal() string { return string(s) }

// UntrustedReason is why an untrusted run gets no secrets of providers: the
// author of its steps must not learn them.
const UntrustedReason = "an untrusted run cannot read secrets of providers"

// UntrustedHostReason is why an untrusted run gets nothing of its hosts: what its steps write
// there, other runs find.
const UntrustedHostReason = "an untrusted run cannot have paths or devices of the host, which other runs of the pool use too"

// SecretNames returns the names of all secrets, sorted.
func (s *Spec) SecretNames() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.Secrets)), maps.Keys(s.SecretsFrom))
	slices.Sort(names)
	return names
}
