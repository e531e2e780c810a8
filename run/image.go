package run

import (
	"maps"
	"slices"
	"strings"
)

// What completes the short name of an image.
const (
	defaultRegistry = "docker.io"
	otherRegistry   = "index.docker.io"      // of the same images
	hubServer       = "registry-1.docker.io" // of the same images too
	officialImages  = "library"              // the path of images whose name has one component
	defaultTag      = "latest"
)

// The greatest lengths of a pattern of images, of an image that one can match, and of a
// prefix in a rewrite, in bytes. Registries accept names of 255 bytes.
const (
	maxImagePattern = 500
	maxImage        = 1000
	maxImagePrefix  = 255
)

// anyComponents stands for any number of components in a pattern of images.
const anyComponents = "**"

// imageTextPattern matches a pattern of images with the characters of a name and *. Only a
// registry may begin with a bracket.
var imageTextPattern = newPattern(`^(?:\[[0-9a-fA-F:]+\][:/])?[a-zA-Z0-9._+/:@*-]+$`)

// imagePrefixPattern matches the beginning of a full name in its canonical form.
var imagePrefixPattern = newPattern(`^(?:\[[0-9a-f:]+\]|[a-z0-9]+(?:(?:\.|-+)[a-z0-9]+)*)(?::[0-9]+)?(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$`)

// PoolImages restricts the images of a pool's tasks, and says where they are pulled from.
// The zero value allows all, from their own registries.
type PoolImages struct {
	// Default is the image of tasks that have none; "" for none. It is always allowed.
	Default string `json:"default,omitempty"`
	// Allowed are patterns of the images that tasks and their steps may use; none means all.
	Allowed []string `json:"allowed,omitempty"`
	// AllowedServices are patterns of the images that services may use; none means
	// those of Allowed.
	AllowedServices []string `json:"allowed_services,omitempty"`
	// PullPolicies are the allowed pull policies; none means all.
	PullPolicies []PullPolicy `json:"pull_policies,omitempty"`
	// Rewrites replace prefixes of full image names, such as docker.io by
	// mirror.example.com/hub. They apply to images that are allowed under the names that
	// tasks use, and the longest prefix wins.
	Rewrites map[string]string `json:"rewrites,omitempty"`
	// Registries are the credentials that all tasks of the pool pull with, by host. The
	// credentials of the run come first.
	Registries map[string]PoolRegistry `json:"registries,omitempty"`
}

// PoolRegistry holds a pool's credentials for one image registry.
type PoolRegistry struct {
	Username     string    `json:"username"`
	PasswordFrom SecretRef `json:"password_from"`
}

// Allows reports whether tasks and their steps may use an image.
func (r *PoolImages) Allows(image string) bool {
	return ImageAllowed(r.Allowed, image) || r.Default != "" && FullImage(image) == FullImage(r.Default)
}

// Services returns the patterns for images of services, and the key that states them.
func (r *PoolImages) Services() (patterns []string, key string) {
	if len(r.AllowedServices) > 0 {
		return r.AllowedServices, "allowed_service_images"
	}
	return r.Allowed, "allowed_images"
}

// Policy returns the pull policy of a task that asks for one, "" for none.
func (r *PoolImages) Policy(asked PullPolicy) PullPolicy {
	if asked == "" {
		asked = PullIfNotPresent
	}
	if len(r.PullPolicies) > 0 && !slices.Contains(r.PullPolicies, asked) {
		return r.PullPolicies[0]
	}
	return asked
}

// allow reports whether a task uses only images and a pull policy that are allowed.
func (r *PoolImages) allow(t *TaskSpec) bool {
	services, _ := r.Services()
	return (t.PullPolicy == "" || r.Policy(t.PullPolicy) == t.PullPolicy) &&
		(len(r.Allowed) == 0 || !slices.ContainsFunc(t.images(), func(image string) bool { return !r.Allows(image) })) &&
		!slices.ContainsFunc(t.Services, func(s ServiceSpec) bool { return !ImageAllowed(services, s.Image) })
}

// images returns the different images of the task and its steps.
func (t *TaskSpec) images() []string {
	all := []string{t.Image}
	for i := range t.Steps {
		all = append(all, t.Steps[i].Image)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(image string) bool { return image == "" })
}

// define adds the restrictions and rewrites to the definition of a task.
func (r *PoolImages) define(d *Definition) {
	d.PullPolicy = r.Policy(d.PullPolicy)
	d.Image = r.source(d.Image, r.Allowed)
	for i := range d.Steps {
		d.Steps[i].Image = r.source(d.Steps[i].Image, r.Allowed)
	}
	patterns, _ := r.Services()
	for i := range d.Services {
		d.Services[i].Image = r.source(d.Services[i].Image, patterns)
	}
}

// registries returns the credentials of the pool that an executor of the task may need:
// those for hosts of its images for which the run has none. Executors pull images of their
// operators with them too, and the gateway does not know these: an image for checkouts, and
// further images of pods.
func (p *Pool) registries(d *Definition) map[string]PoolRegistry {
	others := p.Driver == DriverKubernetes || slices.ContainsFunc(d.Steps, func(s StepDef) bool { return s.Checkout != nil && s.Image == "" })
	needed := maps.Clone(p.Images.Registries)
	maps.DeleteFunc(needed, func(host string, _ PoolRegistry) bool { return !others && !d.Pulls(host) })
	for host := range d.Auth {
		delete(needed, host)
	}
	return needed
}

// Pulls reports whether an image of the task, its steps or its services is in the registry
// of a host.
func (d *Definition) Pulls(host string) bool {
	images := append(d.HelperImages(), d.Image)
	for i := range d.Services {
		images = append(images, d.Services[i].Image)
	}
	return slices.ContainsFunc(images, func(image string) bool { return image != "" && registryHost(parseImage(image).registry) == host })
}

// source returns the name under which an executor gets an image that the patterns
// restrict. Restricted images have their full names: an executor could read a short one as
// the ID of an image that it has, or look for it in another registry than the one it was
// checked for.
func (r *PoolImages) source(image string, patterns []string) string {
	if image == "" || len(patterns) == 0 && len(r.Rewrites) == 0 {
		return image
	}
	n := parseImage(image).withHub()
	full := n.full()
	for prefix := n.registry + "/" + n.path; ; {
		to, rest := r.Rewrites[strings.ToLower(prefix)], full[len(prefix):]
		// A registry alone is no image.
		if to != "" && (strings.HasPrefix(rest, "/") || strings.Contains(to, "/")) {
			return FullImage(to + rest)
		}
		i := strings.LastIndexByte(prefix, '/')
		if i < 0 {
			break
		}
		prefix = prefix[:i]
	}
	if len(patterns) == 0 {
		return image
	}
	return FullImage(image)
}

// imageName is the full name of an image, or a pattern of such names.
type imageName struct{ registry, path, tag, digest string }

// parseImage completes the name or pattern of an image as Docker does. The pattern ** is
// for all registries.
func parseImage(text string) imageName {
	text, digest, _ := strings.Cut(text, "@")
	n := imageName{path: text, digest: digest}
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, '/') {
		n.path, n.tag = text[:i], text[i+1:]
	}
	if n.path == anyComponents {
		return imageName{registry: n.path, tag: n.tag, digest: n.digest}
	}
	n.registry = defaultRegistry
	if first, rest, ok := strings.Cut(n.path, "/"); ok && isRegistry(first) {
		n.registry, n.path = first, rest
	}
	if n.registry == otherRegistry {
		n.registry = defaultRegistry
	}
	return n.withOfficial()
}

// withOfficial completes the path of an official image of Docker Hub.
func (p imageName) withOfficial() imageName {
	if p.registry == defaultRegistry && !strings.Contains(p.path, "/") && p.path != anyComponents {
		p.path = officialImages + "/" + p.path
	}
	return p
}

// withHub replaces other hosts of Docker Hub by docker.io.
func (p imageName) withHub() imageName {
	if registryHost(p.registry) == defaultRegistry {
		p.registry = defaultRegistry
	}
	return p.withOfficial()
}

// registryHost returns the one spelling of a registry's host that prefixes of images and
// pools have: in lower case, and docker.io for all hosts of Docker Hub.
func registryHost(host string) string {
	host = strings.ToLower(host)
	switch strings.TrimSuffix(host, ":443") {
	case defaultRegistry, otherRegistry, hubServer:
		return defaultRegistry
	}
	return host
}

// isRegistry reports whether the first component of a name is a registry. A path is in
// lower case.
func isRegistry(first string) bool {
	return strings.ContainsAny(first, ".:") || first == "localhost" || first == anyComponents || strings.ToLower(first) != first
}

// FullImage returns the full name of an image, such as docker.io/library/alpine:latest for
// alpine; "" for "". A digest decides alone which image it is, so the name has no tag then.
func FullImage(image string) string {
	if image == "" {
		return ""
	}
	return parseImage(image).full()
}

func (p imageName) full() string {
	name := p.registry + "/" + p.path
	switch {
	case p.digest != "":
		return name + "@" + p.digest
	case p.tag != "":
		return name + ":" + p.tag
	}
	return name + ":" + defaultTag
}

// CheckImagePattern checks a pattern of images. Errors: invalid.
func CheckImagePattern(pattern string) error {
	p := parseImage(pattern)
	components := p.components()
	var fault string
	switch {
	case len(pattern) > maxImagePattern || !imageTextPattern.MatchString(pattern):
		fault = "names have letters, digits and ._-+/:@, and * stands for any text"
	case slices.Contains(components, "") || strings.HasSuffix(pattern, ":") || strings.HasSuffix(pattern, "@") || strings.Contains(pattern, ":@"):
		fault = "a component, its tag or its digest is empty"
	case slices.ContainsFunc(components, func(c string) bool { return c != anyComponents && strings.Contains(c, anyComponents) }):
		fault = "** stands for whole components, between slashes"
	case p.path != strings.ToLower(p.path):
		fault = "the path of an image is in lower case"
	case !strings.Contains(pattern, "/") && isRegistry(strings.TrimPrefix(p.path, officialImages+"/")):
		fault = "without a slash it is an image of Docker Hub; for the images of a registry, /** follows its name"
	case p.tag != "" && p.digest != "":
		fault = "it has a tag and a digest, and an image with a digest has no tag"
	default:
		return nil
	}
	return Errorf(CodeInvalid, "%s is not a pattern of images such as registry.example.com/team/*: %s", brief(pattern), fault)
}

// CheckImagePrefix checks a prefix of image names in a rewrite, or what replaces it.
// Errors: invalid.
func CheckImagePrefix(prefix string) error {
	var fault string
	registry, _, _ := strings.Cut(prefix, "/")
	switch {
	case len(prefix) > maxImagePrefix || !imagePrefixPattern.MatchString(prefix):
		fault = "it has components in lower case, and no tag, digest or *"
	case !isRegistry(registry):
		fault = "it begins with a registry; the one of Docker Hub is " + defaultRegistry
	case registryHost(registry) != registry:
		fault = "the registry of Docker Hub is " + defaultRegistry
	default:
		return nil
	}
	return Errorf(CodeInvalid, "%s is not the beginning of a full image name, such as registry.example.com/team: %s", brief(prefix), fault)
}

// ImageAllowed reports whether an image matches one of the patterns, or there are none.
// A pattern is completed like the name of an image, but without a tag and a digest it
// matches all of them. In a component, a tag and a digest, * stands for any text; **
// stands for any number of components. A name that no registry accepts matches nothing.
func ImageAllowed(patterns []string, image string) bool {
	if len(patterns) == 0 {
		return true
	}
	n := parseImage(FullImage(image))
	n.registry = strings.ToLower(n.registry)
	return len(image) <= maxImage && slices.ContainsFunc(patterns, func(pattern string) bool { return parseImage(pattern).matches(n) })
}

// matches reports whether a pattern matches the full name of an image.
func (p imageName) matches(n imageName) bool {
	switch {
	case p.digest != "" && !matchText(p.digest, n.digest), p.tag != "" && !matchText(p.tag, n.tag):
		return false
	case p.registry == anyComponents:
		return p.path == "" || matchPath(p.registry+"/"+p.path, n.registry+"/"+n.path)
	}
	return matchText(strings.ToLower(p.registry), n.registry) && matchPath(p.path, n.path)
}

// components returns the registry and the components of the path.
func (p imageName) components() []string {
	if p.path == "" {
		return []string{p.registry}
	}
	return append([]string{p.registry}, strings.Split(p.path, "/")...)
}

// matchPath reports whether the components of a path match a pattern with * and **. If the
// components after ** do not match, it stands for one more.
func matchPath(pattern, path string) bool {
	var after, from string // the pattern after the last **, and the path that it was tried on
	starred := false
	for path != "" {
		p, patternRest, _ := strings.Cut(pattern, "/")
		c, rest, _ := strings.Cut(path, "/")
		switch {
		case p == anyComponents:
			starred, after, from, pattern = true, patternRest, path, patternRest
		case p != "" && matchText(p, c):
			pattern, path = patternRest, rest
		case starred:
			_, from, _ = strings.Cut(from, "/")
			pattern, path = after, from
		default:
			return false
		}
	}
	for pattern == anyComponents || strings.HasPrefix(pattern, anyComponents+"/") {
		_, pattern, _ = strings.Cut(pattern, "/")
	}
	return pattern == ""
}

// matchText reports whether a text that is not empty matches a pattern with *. If what is
// after * does not match, it stands for one more byte.
func matchText(pattern, text string) bool {
	star, from := -1, 0
	p, i := 0, 0
	for i < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && pattern[p] == text[i]:
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	return text != "" && strings.Trim(pattern[p:], "*") == ""
}
