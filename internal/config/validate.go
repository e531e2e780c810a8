package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Part is a process that uses the configuration.
type Part string

// The parts.
const (
	PartDev      Part = "dev"
	PartTemporal Part = "temporal"
	PartGateway  Part = "gateway"
	PartControl  Part = "control"
	PartRelay    Part = "relay"
	PartExecutor Part = "executor"
	PartFleet    Part = "fleet"
)

// maxSlots bounds the slots of an executor, so that a mistyped number does not
// start a million tasks.
const maxSlots = 10_000

// maxGPUs bounds the GPUs of an executor, likewise.
const maxGPUs = 1024

// minInterval bounds how often the retention runs: each pass costs a few events
// of Temporal's history.
const minInterval = time.Second

// namePattern matches names of pools and ids, which are parts of names in
// Temporal, the records and Docker.
var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?$`)

// Validate checks the values of all settings, and that the settings are set that
// the given parts need. It returns all problems joined, each beginning with the
// key.
func (c Config) Validate(parts ...Part) error {
	v := &validator{}
	v.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	v.oneOf("log.format", c.Log.Format, "text", "json")
	v.address("telemetry.listen", c.Telemetry.Listen)
	v.address("temporal.address", c.Temporal.Address)
	if u, err := url.Parse(c.Temporal.UIURL); c.Temporal.UIURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		v.fail("temporal.ui_url", "must be an http or https URL")
	}
	v.oneOf("records.driver", c.Records.Driver, "sqlite", "postgres")
	v.exclusive("records.dsn", c.Records.DSN != "", "records.dsn_file", c.Records.DSNFile != "")
	v.exclusive("records.keys", c.Records.Keys != "", "records.keys_file", c.Records.KeysFile != "")
	v.blobURL(c.Blobs.URL)
	c.Archives.validate(v)
	if c.Logs.MaxMiB < 0 {
		v.fail("logs.max_mib", "must not be negative; 0 is no limit")
	}
	c.Retention.validate(v)
	c.Control.validate(v)
	c.Gateway.validate(v)
	c.Relay.validate(v)
	c.Executor.validate(v)
	c.Fleet.validate(v)
	c.Dev.validate(v)
	for _, part := range parts {
		c.require(v, part)
	}
	return errors.Join(v.errs...)
}

func (c Control) validate(v *validator) {
	if c.Deployment == "" && (c.BuildID != "" || c.Promote) {
		v.fail("control.deployment", "must be set if control.build_id or control.promote is set")
	}
	// Temporal builds names from the deployment and the build id, with a dot or a
	// colon between them.
	if strings.ContainsAny(c.Deployment, ".:") {
		v.fail("control.deployment", "%q must not contain a dot or a colon", c.Deployment)
	}
	if c.RunURL != "" {
		u, err := url.Parse(strings.ReplaceAll(c.RunURL, "{run}", "x"))
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !strings.Contains(c.RunURL, "{run}") {
			v.fail("control.run_url", "must be an http or https URL with {run} in place of the ID of a run")
		}
	}
}

func (r Retention) validate(v *validator) {
	if r.Interval < minInterval {
		v.fail("retention.interval", "must be at least %s", minInterval)
	}
	for _, bound := range []struct {
		key string
		bad bool
	}{
		{"retention.per_second", r.PerSecond < 0},
		{"retention.logs.max_age", r.Logs.MaxAge < 0},
		{"retention.runs.max_age", r.Runs.MaxAge < 0},
		{"retention.runs.keep", r.Runs.Keep < 0},
		{"retention.events.max_age", r.Events.MaxAge < 0},
		{"retention.events.keep", r.Events.Keep < 0},
		{"retention.executors.max_age", r.Executors.MaxAge < 0},
		{"retention.audit.max_age", r.Audit.MaxAge < 0},
	} {
		if bound.bad {
			v.fail(bound.key, "must not be negative; 0 is no bound")
		}
	}
}

func (g Gateway) validate(v *validator) {
	v.address("gateway.listen", g.Listen)
	if slices.Contains(g.Hosts, "") {
		v.fail("gateway.hosts", "must not contain an empty host")
	}
	v.basePath("gateway.base_path", g.BasePath)
	for _, proxy := range g.TrustedProxies {
		_, err := netip.ParsePrefix(proxy)
		if _, notAddress := netip.ParseAddr(proxy); err != nil && notAddress != nil {
			v.fail("gateway.trusted_proxies", "%q is neither an address nor a network such as 10.0.0.0/8", proxy)
		}
	}
	if (g.TLSCertFile == "") != (g.TLSKeyFile == "") {
		v.fail("gateway.tls_cert_file", "requires gateway.tls_key_file, and the reverse")
	}
	for _, origin := range g.CodecOrigins {
		if u, err := url.Parse(origin); err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" {
			v.fail("gateway.codec_origins", "%q is not an origin of the form SCHEME://HOST or SCHEME://HOST:PORT", origin)
		}
	}
	g.OIDC.validate(v)
	v.oneOf("gateway.access_log", g.AccessLog, "all", "calls", "refused")
	if g.SessionIdle < time.Minute || g.SessionMax < g.SessionIdle {
		v.fail("gateway.session_idle", "must be at least 1m and at most gateway.session_max")
	}
	if g.ShutdownTimeout <= 0 {
		v.fail("gateway.shutdown_timeout", "must be above 0")
	}
}

func (e Executor) validate(v *validator) {
	v.name("executor.id", e.ID)
	v.name("executor.pool", e.Pool)
	if e.Driver != "" {
		v.oneOf("executor.driver", e.Driver, "shell", "docker", "kubernetes")
	}
	v.slots("executor.slots", e.Slots, 0)
	for k := range e.Labels {
		if k == "" {
			v.fail("executor.labels", "must not contain a label without a name")
		}
	}
	if n := e.Resources.GPUs; n < 0 || n > maxGPUs {
		v.fail("executor.resources.gpus", "%d is not between 0 and %d", n, maxGPUs)
	}
	v.exclusive("executor.token", e.Token != "", "executor.token_file", e.TokenFile != "")
	v.gatewayURL(e.GatewayURL, e.InsecureGateway)
	v.oneOf("executor.kubernetes.helper_pull_policy", e.Kubernetes.HelperPullPolicy, "if_not_present", "always", "never")
	if e.Kubernetes.PendingTimeout < 0 {
		v.fail("executor.kubernetes.pending_timeout", "must not be negative; 0 is no limit")
	}
	v.address("executor.relay.address", e.Relay.Address)
	e.validateSet(v)
}

// maxSetName bounds the name of an executor set, because every heartbeat contains
// it.
const maxSetName = 63

// Bounds of lease_duration: long enough to renew a lease, and short enough that
// another member sends the next heartbeat of a task before it times out in
// Temporal.
const (
	minLease = 4 * time.Second
	maxLease = 20 * time.Second
)

func (e Executor) validateSet(v *validator) {
	if d := e.Kubernetes.LeaseDuration; d < minLease || d > maxLease || d%time.Second != 0 {
		v.fail("executor.kubernetes.lease_duration", "%s is not a number of seconds from %s to %s", d, minLease, maxLease)
	}
	if e.Set == "" {
		return
	}
	v.name("executor.set", e.Set)
	switch {
	case len(e.Set) > maxSetName:
		v.fail("executor.set", "must not have more than %d characters", maxSetName)
	case e.Driver != "" && e.Driver != "kubernetes":
		v.fail("executor.set", "executors with the driver %s cannot join an executor set", e.Driver)
	case e.ID != "":
		v.fail("executor.set", "excludes executor.id: the id of a member of an executor set is not configurable")
	}
}

func (f Fleet) validate(v *validator) {
	for _, name := range f.Names {
		v.name("fleet.names", name)
	}
	if slices.Contains(f.PluginPath, "") {
		v.fail("fleet.plugin_path", "must not contain an empty directory")
	}
	for _, name := range f.PluginEnv {
		switch prefix, _ := strings.CutSuffix(name, "*"); {
		case prefix == "" || strings.ContainsAny(prefix, "*= "):
			v.fail("fleet.plugin_env", "%q is not the name of a variable, or a prefix with a star at its end", name)
		case strings.HasPrefix(prefix, variablePrefix):
			v.fail("fleet.plugin_env", "%q is a variable of Drover itself, and may contain secrets of the records", name)
		}
	}
	f.Bootstrap.validate(v)
}

func (d Dev) validate(v *validator) {
	v.address("dev.http", d.HTTP)
	v.address("dev.temporal", d.Temporal)
	v.address("dev.temporal_ui", d.TemporalUI)
	v.slots("dev.slots", d.Slots, 0)
	for _, driver := range d.Executors {
		v.oneOf("dev.executors", driver, "shell", "docker", "none")
	}
	if len(d.Executors) > 1 && slices.Contains(d.Executors, "none") {
		v.fail("dev.executors", "none excludes other drivers")
	}
}

// require checks the settings that a part requires.
func (c Config) require(v *validator, part Part) {
	switch part {
	case PartDev:
		v.required("dev.data_dir", c.Dev.DataDir)
		v.required("dev.http", c.Dev.HTTP)
		v.required("dev.temporal", c.Dev.Temporal)
	case PartTemporal:
		v.required("dev.data_dir", c.Dev.DataDir)
		v.required("dev.temporal", c.Dev.Temporal)
	case PartGateway:
		v.required("gateway.listen", c.Gateway.Listen)
		if c.Gateway.TokenFile == "" && !isLoopback(hostOf(c.Gateway.Listen)) && c.Gateway.Listen != "" {
			v.fail("gateway.listen", "%s is reachable from other hosts: set gateway.token_file, or use a loopback address", c.Gateway.Listen)
		}
		if c.Gateway.OIDC.Issuer != "" && c.Gateway.TokenFile == "" {
			v.fail("gateway.token_file", "is required by gateway.oidc: executors have tokens, and users while the provider is down")
		}
		c.requireStores(v)
		if c.Gateway.Relay {
			c.require(v, PartRelay)
		}
	case PartControl:
		c.requireStores(v)
	case PartRelay:
		c.Relay.require(v)
	case PartFleet:
		v.required("fleet.state_dir", c.Fleet.StateDir)
		c.Fleet.Bootstrap.require(v)
		c.requireRecords(v)
	case PartExecutor:
		v.required("executor.pool", c.Executor.Pool)
		v.required("executor.driver", c.Executor.Driver)
		if c.Executor.Set == "" {
			v.required("executor.state_dir", c.Executor.StateDir)
		}
		v.required("executor.gateway_url", c.Executor.GatewayURL)
		if c.Executor.Relay.Address != "" && c.Executor.Token == "" && c.Executor.TokenFile == "" {
			v.fail("executor.relay.address", "a relay needs the executor's token: set executor.token_file")
		}
	default:
		v.errs = append(v.errs, fmt.Errorf("unknown part %q", part))
	}
}

func (c Config) requireStores(v *validator) {
	c.requireRecords(v)
	v.required("blobs.url", c.Blobs.URL)
}

func (c Config) requireRecords(v *validator) {
	switch c.Records.Driver {
	case "sqlite":
		v.required("records.path", c.Records.Path)
	case "postgres":
		if c.Records.DSN == "" && c.Records.DSNFile == "" {
			v.fail("records.dsn", "must be set for postgres, or records.dsn_file")
		}
	}
}

// validator collects problems.
type validator struct{ errs []error }

func (v *validator) fail(key, format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("%s: %w", key, fmt.Errorf(format, args...)))
}

func (v *validator) required(key, value string) {
	if value == "" {
		v.fail(key, "must be set")
	}
}

func (v *validator) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		v.fail(key, "%q is not one of %s", value, strings.Join(allowed, ", "))
	}
}

func (v *validator) exclusive(a string, hasA bool, b string, hasB bool) {
	if hasA && hasB {
		v.fail(a, "excludes %s", b)
	}
}

func (v *validator) name(key, value string) {
	if value != "" && !namePattern.MatchString(value) {
		v.fail(key, "%q is not a name of 1 to 100 characters of a-z, 0-9, dot, underscore and dash", value)
	}
}

func (v *validator) slots(key string, n, least int) {
	if n < least || n > maxSlots {
		v.fail(key, "%d is not between %d and %d", n, least, maxSlots)
	}
}

// address checks a host and port; "" is valid.
func (v *validator) address(key, value string) {
	if value == "" {
		return
	}
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		v.fail(key, "%q is not a host and port such as 127.0.0.1:8080", value)
		return
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > 65535 {
		v.fail(key, "%q is not a port", port)
	}
}

func (v *validator) blobURL(value string) {
	if value == "" {
		return
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Scheme == "":
		v.fail("blobs.url", "not a URL such as file:///var/lib/drover/blobs")
	case !slices.Contains([]string{"file", "mem", "s3", "gs", "azblob"}, u.Scheme):
		v.fail("blobs.url", "the scheme %q is not one of file, mem, s3, gs, azblob", u.Scheme)
	case u.User != nil:
		v.fail("blobs.url", "must not contain credentials")
	case u.Scheme == "file" && (u.Host != "" || u.Path == ""):
		v.fail("blobs.url", "a directory needs three slashes: file:///var/lib/drover/blobs")
	}
}

// maxBasePath bounds the base path, because the name of a cookie has it.
const maxBasePath = 200

// basePath has no characters that are escaped in URLs or have a meaning there, and no
// segments that begin with a dot, which browsers may resolve.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)

// gatewayPaths are the first segments of the gateway's own paths. It also answers those
// without the base path, which must not look the same.
func gatewayPaths() []string {
	return []string{
		"api", "approvals", "assets", "audit", "codec", "healthz", "icon.svg", "index.html", "login", "metrics", "openapi.yaml", "operations", "readyz", "runs", "schemas", "submit",
	}
}

func (v *validator) basePath(key, value string) {
	if value == "" {
		return
	}
	if len(value) > maxBasePath || !basePath.MatchString(value) {
		v.fail(key, "%q is not a path such as /drover: it begins with one slash and does not end with one, and has letters, digits, hyphens, underscores and dots", value)
		return
	}
	if first, _, _ := strings.Cut(value[1:], "/"); slices.Contains(gatewayPaths(), first) {
		v.fail(key, "%q begins with /%s, which is a path of the gateway itself", value, first)
	}
}

func (v *validator) gatewayURL(value string, insecure bool) {
	if value == "" {
		return
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		v.fail("executor.gateway_url", "not a URL such as https://drover.example.com")
	case u.User != nil:
		v.fail("executor.gateway_url", "must not contain credentials: use executor.token_file")
	case u.Scheme == "http" && !isLoopback(u.Hostname()) && !insecure:
		v.fail("executor.gateway_url", "%s is neither https nor loopback, and transfers secrets of tasks; "+
			"executor.insecure_gateway allows it", value)
	}
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
