package run

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// SecretNames returns the names of all secrets, sorted.
func (s *Spec) SecretNames() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.Secrets)), maps.Keys(s.SecretsFrom))
	slices.Sort(names)
	return names
}

// faultUntrusted is why an untrusted run gets no secrets of providers: the
// author of its steps must not learn them.
const faultUntrusted = "an untrusted run cannot read secrets of providers"

func checkSecretRefs(l *faultList, s *Spec) {
	if s.Untrusted && len(s.SecretsFrom) > 0 {
		l.add("secrets_from", FaultContradiction, faultUntrusted)
	}
	for name, ref := range sorted(l, s.SecretsFrom) {
		path := Path("secrets_from").Key(name)
		checkVariable(l, path, name, "")
		if _, ok := s.Secrets[name]; ok {
			l.add(path, FaultDuplicate, "there is a secret %s among secrets too", brief(name))
		}
		for _, part := range []struct{ key, value string }{{"provider", ref.Provider}, {"name", ref.Name}} {
			if part.value == "" {
				l.add(path.Key(part.key), FaultRequired, "a reference to a secret has a provider and a name")
			}
		}
		for _, part := range []struct{ key, value string }{{"provider", ref.Provider}, {"name", ref.Name}, {"key", ref.Key}} {
			switch {
			case len(part.value) > MaxGroupLength:
				l.add(path.Key(part.key), FaultOverLimit, "it has %d bytes; the limit is %d", len(part.value), MaxGroupLength)
			case strings.ContainsFunc(part.value, unicode.IsControl) || !utf8.ValidString(part.value):
				l.add(path.Key(part.key), FaultBadFormat, "it has characters that cannot be shown")
			}
		}
		if strings.HasPrefix(ref.Name, "/") || slices.Contains(strings.Split(ref.Name, "/"), "..") {
			l.add(path.Key("name"), FaultBadFormat, "the name %s is outside of its provider: it must not begin with a slash nor have ..", brief(ref.Name))
		}
	}
}

// checkSecretFiles checks the names of secrets that are files; names are the
// sorted names of all secrets.
func checkSecretFiles(l *faultList, s *Spec, names []string) {
	seen := make(map[string]bool, len(s.SecretFiles))
	for i, name := range items(l, s.SecretFiles) {
		path := Path("secret_files").Index(i)
		_, known := slices.BinarySearch(names, name)
		switch {
		case name == "":
			l.add(path, FaultRequired, "it is the name of a secret")
		case seen[name]:
			l.add(path, FaultDuplicate, "the secret %s is named twice", brief(name))
		case !known:
			l.add(path, FaultUnknownSecret, "there is no secret %s%s", brief(name), l.didYouMean(name, names))
		}
		seen[name] = true
	}
}
