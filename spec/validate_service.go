package spec

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/inputs"
)

// aliasPattern matches the names of hosts that container engines accept.
var aliasPattern = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9_.-]{0,61}[a-z0-9])?$`)

// checkServices checks the services of a task; secrets are the sorted names of the
// secrets of the run.
func checkServices(l *faultList, p run.Path, services []run.ServiceSpec, secrets []string) {
	seen := make(map[string]bool, len(services))
	for i, s := range items(l, services) {
		at := p.Index(i)
		checkServiceNames(l, at, &s, seen)
		if s.Image == "" {
			l.add(at.Key("image"), run.FaultRequired, "a service has an image")
		} else {
			checkImage(l, at.Key("image"), s.Image)
		}
		for name, value := range sorted(l, s.Environment) {
			vp := at.Key("environment").Key(name)
			checkServiceVariable(l, vp, name)
			checkText(l, vp, value)
			checkVariableSize(l, vp, name, value)
		}
		for name, secret := range sorted(l, s.Secrets) {
			vp := at.Key("secrets").Key(name)
			checkServiceVariable(l, vp, name)
			if _, twice := s.Environment[name]; twice {
				l.add(vp, run.FaultContradiction, "the variable %s is in environment too", quote(name))
			}
			if _, known := slices.BinarySearch(secrets, secret); !known {
				l.add(vp, run.FaultUnknownSecret, "there is no secret %s", quote(secret))
			}
		}
		for j, arg := range items(l, s.Command) {
			checkText(l, at.Key("command").Index(j), arg)
		}
		if s.Entrypoint != nil && (len(s.Entrypoint) == 0 || s.Entrypoint[0] == "") {
			l.add(at.Key("entrypoint"), run.FaultRequired, "an entrypoint is a list whose first item is a program")
		}
		for j, arg := range items(l, s.Entrypoint) {
			checkText(l, at.Key("entrypoint").Index(j), arg)
		}
		checkResources(l, at.Key("resources"), s.Resources)
		if s.Resources.GPUs > 0 {
			l.add(at.Key("resources").Key("gpus"), run.CodeNotSupported, "services have no GPUs")
		}
		checkHealth(l, at.Key("health"), s.Health)
	}
}

// checkServiceNames checks the names of a service; seen are those of the services before
// it.
func checkServiceNames(l *faultList, at run.Path, s *run.ServiceSpec, seen map[string]bool) {
	derived := s.Name == ""
	name := s.ServiceName()
	switch {
	case derived && (s.Image == "" || inputs.HasReference(s.Image) || !imagePattern.MatchString(s.Image)):
		return // the image has the fault, or is checked again once the reference is replaced
	case derived && !run.ValidName(name):
		l.add(at.Key("name"), run.FaultRequired, "the image gives the name %s, which is too long: name the service", quote(name))
	case !run.ValidName(name):
		l.add(at.Key("name"), run.FaultBadFormat, "%s is not the name of a service: 1 to %d of a to z, 0 to 9, dot, underscore and dash",
			quote(name), run.MaxNameLength)
	case seen[name] && derived:
		l.add(at.Key("name"), run.FaultDuplicate, "there is another service or alias %s, the name that the image gives: name this service", quote(name))
	case seen[name]:
		l.add(at.Key("name"), run.FaultDuplicate, "there is another service or alias %s", quote(name))
	}
	seen[name] = true
	if len(s.Aliases) > run.MaxAliases {
		l.add(at.Key("aliases"), run.FaultOverLimit, "there are %d aliases; the limit is %d", len(s.Aliases), run.MaxAliases)
		return
	}
	for i, alias := range items(l, s.Aliases) {
		ap := at.Key("aliases").Index(i)
		switch {
		case !aliasPattern.MatchString(alias):
			l.add(ap, run.FaultBadFormat, "%s is not the name of a host: 1 to 63 of a to z, 0 to 9, dot, underscore and dash", quote(alias))
		case seen[alias]:
			l.add(ap, run.FaultDuplicate, "there is another service or alias %s", quote(alias))
		}
		seen[alias] = true
	}
}

// checkServiceVariable checks the name of a variable of a service. Images read variables
// that no shell could set (discovery.type).
func checkServiceVariable(l *faultList, at run.Path, name string) {
	if name == "" || strings.Contains(name, "=") {
		l.add(at, run.FaultBadFormat, "%s is not the name of a variable", quote(name))
	}
	checkText(l, at, name)
}

func checkHealth(l *faultList, at run.Path, h *run.HealthCheck) {
	if h == nil {
		return
	}
	if len(h.Command) == 0 || h.Command[0] == "" {
		l.add(at.Key("command"), run.FaultRequired, "a health check has a command, a list whose first item is a program in the image of the service")
	}
	for i, arg := range items(l, h.Command) {
		checkText(l, at.Key("command").Index(i), arg)
	}
	checkTimeout(l, at.Key("timeout"), h.Timeout)
}

// hostPattern matches a host name in lower case, as in DNS.
var hostPattern = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$`)

// maxHostName is the greatest length of a host name in DNS.
const maxHostName = 253

func checkExtraHosts(l *faultList, p run.Path, t *run.TaskSpec) {
	if len(t.ExtraHosts) > run.MaxExtraHosts {
		l.add(p, run.FaultOverLimit, "there are %d hosts; the limit is %d", len(t.ExtraHosts), run.MaxExtraHosts)
	}
	for name, address := range sorted(l, t.ExtraHosts) {
		at := p.Key(name)
		if len(name) > maxHostName || !hostPattern.MatchString(name) {
			l.add(at, run.FaultBadFormat, "%s is not the name of a host, such as git.example.com", quote(name))
		}
		if ip, err := netip.ParseAddr(address); err != nil || ip.Zone() != "" {
			l.add(at, run.FaultBadFormat, "%s is not an IP address", quote(address))
		}
		for i := range t.Services {
			if slices.Contains(t.Services[i].HostNames(), name) {
				l.add(at, run.FaultDuplicate, "a service has this name too")
			}
		}
	}
}
