package spec

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/inputs"
)

var (
	// refPattern matches what git accepts as the name of a ref, more or less; git checks
	// the rest. It cannot be an option.
	refPattern = regexp.MustCompile(`^[^-+\x00-\x20\x7f~^:?*\[\\][^\x00-\x20\x7f~^:?*\[\\]*$`)
	// refSpecPattern matches a refspec, with one colon at most.
	refSpecPattern = regexp.MustCompile(`^\+?[^-+\x00-\x20\x7f~^:?\[\\][^\x00-\x20\x7f~^:?\[\\]*(?::[^\x00-\x20\x7f~^:?\[\\]+)?$`)
	shaPattern     = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
	// sshPattern matches the short form of an address for ssh, host:path.
	sshPattern = regexp.MustCompile(`^(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:[^\x00-\x20]+$`)
)

// checkCheckout checks a checkout step; secrets are the sorted names of the secrets of
// the run.
func checkCheckout(l *faultList, p run.Path, c *run.Checkout, secrets []string) {
	if c == nil {
		return
	}
	checkRepository(l, p, c)
	for _, text := range []struct {
		key, value string
		pattern    *regexp.Regexp
		expected   string
	}{
		{"ref", c.Ref, refPattern, "a branch, a tag or a full name such as refs/heads/main"},
		{"sha", c.SHA, shaPattern, "the full name of a commit: 40 or 64 of 0 to 9 and a to f"},
	} {
		if text.value != "" && !inputs.HasReference(text.value) && !text.pattern.MatchString(text.value) {
			l.add(p.Key(text.key), run.FaultBadFormat, "%s is not %s", quote(text.value), text.expected)
		}
	}
	if len(c.RefSpecs) > run.MaxRefSpecs {
		l.add(p.Key("refspecs"), run.FaultOverLimit, "there are %d refspecs; the limit is %d", len(c.RefSpecs), run.MaxRefSpecs)
	}
	for i, text := range items(l, c.RefSpecs) {
		if !refSpecPattern.MatchString(text) {
			l.add(p.Key("refspecs").Index(i), run.FaultBadFormat, "%s is not a refspec such as +refs/heads/main:refs/remotes/origin/main", quote(text))
		}
	}
	if c.Depth < 0 || c.Depth > run.MaxDepth {
		l.add(p.Key("depth"), run.FaultOutOfRange, "it is %d; it must be 0 to %d", c.Depth, run.MaxDepth)
	}
	checkEnum(l, p.Key("submodules"), c.Submodules, run.SubmodulesNone, run.SubmodulesNormal, run.SubmodulesRecursive)
	checkText(l, p.Key("path"), c.Path)
	if !localPath(c.Path) {
		l.add(p.Key("path"), run.FaultBadValue, "%s leads out of the working directory", quote(c.Path))
	}
	if c.Credentials == "" {
		return
	}
	if _, known := slices.BinarySearch(secrets, c.Credentials); !known {
		l.add(p.Key("credentials"), run.FaultUnknownSecret, "there is no secret %s%s", quote(c.Credentials), l.didYouMean(c.Credentials, secrets))
	}
}

func checkRepository(l *faultList, p run.Path, c *run.Checkout) {
	at := p.Key("repository")
	checkText(l, at, c.Repository)
	if c.Repository == "" {
		l.add(at, run.FaultRequired, "a checkout has a repository")
		return
	}
	if inputs.HasReference(c.Repository) {
		return // it is checked again once the reference is replaced
	}
	const expected = "%s is not the address of a repository, such as https://git.example.com/owner/name.git or git@git.example.com:owner/name.git"
	u, err := url.Parse(c.Repository)
	if err != nil || u.Scheme == "" || u.Opaque != "" || !strings.Contains(c.Repository, "://") {
		if !sshPattern.MatchString(c.Repository) {
			l.add(at, run.FaultBadFormat, expected, quote(c.Repository))
		} else if c.Credentials != "" {
			l.add(p.Key("credentials"), run.FaultContradiction, "credentials are for http and https; ssh uses the keys of its host")
		}
		return
	}
	_, password := u.User.Password()
	web := u.Scheme == "http" || u.Scheme == "https"
	switch {
	case !web && u.Scheme != "ssh" && u.Scheme != "file" || u.Scheme != "file" && u.Host == "":
		l.add(at, run.FaultBadFormat, expected, quote(c.Repository))
	case password || web && u.User != nil:
		l.add(at, run.FaultBadValue, "an address has no credentials: name a secret in credentials")
	case !web && c.Credentials != "":
		l.add(p.Key("credentials"), run.FaultContradiction, "credentials are for http and https")
	}
}
