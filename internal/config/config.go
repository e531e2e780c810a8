// Package config is the configuration of Drover's processes: one tree of settings
// with defaults. It is read from a YAML file, the environment and flags, in that
// order, validated, and printed with its secrets hidden.
//
// It imports no other package of Drover: cmd passes its own options to each part.
package config

import "time"

// Config is the whole configuration. Each process reads the sections that it
// needs; see Part.
type Config struct {
	Log       Log       `koanf:"log" yaml:"log"`
	Telemetry Telemetry `koanf:"telemetry" yaml:"telemetry"`
	Temporal  Temporal  `koanf:"temporal" yaml:"temporal"`
	Records   Records   `koanf:"records" yaml:"records"`
	Blobs     Blobs     `koanf:"blobs" yaml:"blobs"`
	Logs      Logs      `koanf:"logs" yaml:"logs"`
	Archives  Archives  `koanf:"archives" yaml:"archives"`
	Retention Retention `koanf:"retention" yaml:"retention"`
	Control   Control   `koanf:"control" yaml:"control"`
	Gateway   Gateway   `koanf:"gateway" yaml:"gateway"`
	Relay     Relay     `koanf:"relay" yaml:"relay"`
	Executor  Executor  `koanf:"executor" yaml:"executor"`
	Fleet     Fleet     `koanf:"fleet" yaml:"fleet"`
	Dev       Dev       `koanf:"dev" yaml:"dev"`
}

// Log configures the log of a process, which goes to standard error.
type Log struct {
	Level  string `koanf:"level" yaml:"level"`   // debug, info, warn or error
	Format string `koanf:"format" yaml:"format"` // text or json
}

// Telemetry configures the listener for /metrics, /healthz and /readyz of a
// process without a gateway.
type Telemetry struct {
	Listen string `koanf:"listen" yaml:"listen"` // "": none
}

// Temporal configures the connection to the Temporal server. Empty settings come
// from Temporal's own environment and profile.
type Temporal struct {
	Address   string `koanf:"address" yaml:"address"`
	Namespace string `koanf:"namespace" yaml:"namespace"`
	Profile   string `koanf:"profile" yaml:"profile"` // of Temporal's configuration file
	// CodecKeysFile has the keys that encrypt payloads in Temporal; "" means no
	// encryption.
	CodecKeysFile string `koanf:"codec_keys_file" yaml:"codec_keys_file"`
	// UIURL is the URL of Temporal's web UI, to which the web UI links; "" means no
	// link.
	UIURL string `koanf:"ui_url" yaml:"ui_url"`
}

// Records configures the store of the records: everything that clients see of
// runs.
type Records struct {
	Driver string `koanf:"driver" yaml:"driver"` // sqlite or postgres
	Path   string `koanf:"path" yaml:"path"`     // of the file, for sqlite
	// DSN is the connection string for postgres; DSNFile names a file that contains
	// it instead.
	DSN     Secret `koanf:"dsn" yaml:"dsn"`
	DSNFile string `koanf:"dsn_file" yaml:"dsn_file"`
	// Keys encrypt the secrets in the records, one key a line. The first encrypts
	// new secrets. KeysFile names a file that contains the keys instead.
	Keys     Secret `koanf:"keys" yaml:"keys"`
	KeysFile string `koanf:"keys_file" yaml:"keys_file"`
}

// Blobs configures the store of logs and archives.
type Blobs struct {
	URL string `koanf:"url" yaml:"url"` // file:///dir, mem://, s3://bucket, gs://bucket, azblob://container
}

// Logs bounds the logs that gateways store.
type Logs struct {
	MaxMiB int `koanf:"max_mib" yaml:"max_mib"` // of one task; 0: no limit
}

// Retention configures what control workers delete, and how often. All of them
// should have the same settings: the worker that starts last decides.
type Retention struct {
	Interval time.Duration `koanf:"interval" yaml:"interval"`
	// PerSecond bounds how many runs, logs of runs and archives are removed in a
	// second, and how many hundreds of events; 0: no bound.
	PerSecond int            `koanf:"per_second" yaml:"per_second"`
	Logs      LogRetention   `koanf:"logs" yaml:"logs"`
	Runs      RunRetention   `koanf:"runs" yaml:"runs"`
	Events    EventRetention `koanf:"events" yaml:"events"`
	// Executors bounds the executors that were removed, and the instances of fleets
	// that are gone.
	Executors ExecutorRetention `koanf:"executors" yaml:"executors"`
	// Audit bounds the audit log.
	Audit AuditRetention `koanf:"audit" yaml:"audit"`
}

// AuditRetention bounds the audit log.
type AuditRetention struct {
	MaxAge time.Duration `koanf:"max_age" yaml:"max_age"` // 0: no bound
}

// ExecutorRetention bounds how long removed executors and gone instances are known.
type ExecutorRetention struct {
	MaxAge time.Duration `koanf:"max_age" yaml:"max_age"` // since the removal; 0: no bound
}

// LogRetention bounds the logs of runs that have ended.
type LogRetention struct {
	MaxAge time.Duration `koanf:"max_age" yaml:"max_age"` // since the end of the run; 0: no bound
}

// RunRetention bounds the runs that have ended. A run is deleted with its tasks
// and their logs when all bounds that are set allow it. If no bound is set, all
// runs are kept.
type RunRetention struct {
	MaxAge time.Duration `koanf:"max_age" yaml:"max_age"` // since the creation of the run; 0: no bound
	Keep   int           `koanf:"keep" yaml:"keep"`       // number of newest runs of each group to keep; 0: no bound
}

// EventRetention bounds the events. An event is deleted as soon as one bound that
// is set allows it. If no bound is set, all events are kept.
type EventRetention struct {
	MaxAge time.Duration `koanf:"max_age" yaml:"max_age"` // 0: no bound
	Keep   int           `koanf:"keep" yaml:"keep"`       // number of newest events to keep; 0: no bound
}

// Control configures how control workers take part in Temporal's worker
// versioning.
type Control struct {
	// Deployment is the name of the worker deployment; "" means no versioning: any
	// worker continues a workflow.
	Deployment string `koanf:"deployment" yaml:"deployment"`
	// BuildID is the id of this build in the deployment; "" means Drover's version.
	BuildID string `koanf:"build_id" yaml:"build_id"`
	// Promote makes this build the current one of the deployment when its workers
	// poll. Otherwise an operator does so with Temporal's own tools.
	Promote bool `koanf:"promote" yaml:"promote"`
	// RunURL is the URL of a run in the messages of webhooks, with {run} in place
	// of its id; "" means no link.
	RunURL string `koanf:"run_url" yaml:"run_url"`
}

// Gateway configures the HTTP server for clients and executors.
type Gateway struct {
	Listen string `koanf:"listen" yaml:"listen"`
	// Hosts are the names, with or without port, by which clients reach the
	// gateway, in addition to its listen address.
	Hosts []string `koanf:"hosts" yaml:"hosts"`
	// BasePath is the path below which a reverse proxy has the gateway, such as
	// /drover; "" means the root.
	BasePath string `koanf:"base_path" yaml:"base_path"`
	// TokenFile lists the hashes of the bearer tokens. Without it the gateway
	// listens on loopback addresses only.
	TokenFile       string        `koanf:"token_file" yaml:"token_file"`
	TLSCertFile     string        `koanf:"tls_cert_file" yaml:"tls_cert_file"`
	TLSKeyFile      string        `koanf:"tls_key_file" yaml:"tls_key_file"`
	ShutdownTimeout time.Duration `koanf:"shutdown_timeout" yaml:"shutdown_timeout"`
	// SessionIdle ends the session of a browser that made no request for this long, and
	// SessionMax ends it in any case.
	SessionIdle time.Duration `koanf:"session_idle" yaml:"session_idle"`
	SessionMax  time.Duration `koanf:"session_max" yaml:"session_max"`
	// SecureCookies says that browsers reach the gateway over TLS, which a proxy ends.
	SecureCookies bool `koanf:"secure_cookies" yaml:"secure_cookies"`
	// TrustedProxies are the addresses and networks of the reverse proxies whose
	// X-Forwarded-For and X-Forwarded-Proto are true.
	TrustedProxies []string `koanf:"trusted_proxies" yaml:"trusted_proxies"`
	// OIDC is the OpenID Connect provider of the users.
	OIDC OIDC `koanf:"oidc" yaml:"oidc"`
	// AccessLog selects the requests that are logged at info: all, calls or refused.
	AccessLog string `koanf:"access_log" yaml:"access_log"`
	// Relay makes the process of the gateway serve a relay too.
	Relay bool `koanf:"relay" yaml:"relay"`
	// RelayKeyFile has the keys of the relays. With them, an executor whose token
	// is bound may only claim tasks that a relay handed to it. If the process
	// serves a relay, "" means the key file of that relay.
	RelayKeyFile string `koanf:"relay_key_file" yaml:"relay_key_file"`
	// SecretProvidersFile configures the providers from which secrets of runs are
	// read; "" means none.
	SecretProvidersFile string `koanf:"secret_providers_file" yaml:"secret_providers_file"`
	// CodecOrigins are the origins of Temporal's web UI from which browsers may
	// decode payloads.
	CodecOrigins []string `koanf:"codec_origins" yaml:"codec_origins"`
}

// Executor configures an executor, which runs the tasks of one pool.
type Executor struct {
	ID     string `koanf:"id" yaml:"id"` // "": a permanent id in the state dir
	Pool   string `koanf:"pool" yaml:"pool"`
	Driver string `koanf:"driver" yaml:"driver"` // shell, docker or kubernetes
	// Slots is how many tasks it runs at a time; 0 means one, or one for each CPU that
	// Resources offers.
	Slots    int               `koanf:"slots" yaml:"slots"`
	StateDir string            `koanf:"state_dir" yaml:"state_dir"`
	Labels   map[string]string `koanf:"labels" yaml:"labels"`
	// Resources are what the executor offers to its tasks.
	Resources Resources `koanf:"resources" yaml:"resources"`
	// Privileged allows privileged tasks, which can take over the host.
	Privileged bool `koanf:"privileged" yaml:"privileged"`
	// CheckoutImage is an image with git, for the checkout steps of tasks in containers
	// that name none; "": such tasks are refused.
	CheckoutImage string `koanf:"checkout_image" yaml:"checkout_image"`
	// CheckoutStoreSize bounds the object stores for checkouts with reuse, such as 10Gi;
	// 0: there are none.
	CheckoutStoreSize string `koanf:"checkout_store_size" yaml:"checkout_store_size"`
	// Set makes the executor a member of an executor set, for the driver kubernetes
	// only. A member has no permanent id and no state dir.
	Set string `koanf:"set" yaml:"set"`
	// DrainFinish makes the process finish its tasks before it shuts down.
	// Otherwise it leaves them to their shims and to the next process.
	DrainFinish bool `koanf:"drain_finish" yaml:"drain_finish"`
	// Temporary makes the gateways remove the executor after it was out of contact
	// for RemoveAfter. Operators remove all other executors.
	Temporary   bool          `koanf:"temporary" yaml:"temporary"`
	RemoveAfter time.Duration `koanf:"remove_after" yaml:"remove_after"` // 0: ten minutes
	GatewayURL  string        `koanf:"gateway_url" yaml:"gateway_url"`
	// GatewayCAFile has the certificate authorities of the gateway's certificate; ""
	// means those of the host.
	GatewayCAFile string `koanf:"gateway_ca_file" yaml:"gateway_ca_file"`
	// InsecureGateway allows a gateway URL that is neither https nor loopback:
	// secrets then cross the network unencrypted.
	InsecureGateway bool `koanf:"insecure_gateway" yaml:"insecure_gateway"`
	// Token is a bearer token with the scope executor; TokenFile names a file that
	// contains it instead.
	Token     Secret `koanf:"token" yaml:"token"`
	TokenFile string `koanf:"token_file" yaml:"token_file"`
	// Relay configures the relay through which an untrusted executor reaches
	// Temporal.
	Relay    RelayClient `koanf:"relay" yaml:"relay"`
	ShimPath string      `koanf:"shim_path" yaml:"shim_path"` // "": drover-shim beside the drover binary
	// SecretsDir is a directory in memory for secrets as files, for the driver
	// shell only; "" means /dev/shm, or the user's runtime directory.
	SecretsDir string     `koanf:"secrets_dir" yaml:"secrets_dir"`
	Docker     Docker     `koanf:"docker" yaml:"docker"`
	Kubernetes Kubernetes `koanf:"kubernetes" yaml:"kubernetes"`
}

// Resources are what an executor offers to its tasks. Each task takes what it asks for,
// or else the share of a slot.
type Resources struct {
	CPU    string `koanf:"cpu" yaml:"cpu"`       // such as 8 or 1500m; "": tasks do not share CPUs
	Memory string `koanf:"memory" yaml:"memory"` // such as 32Gi; "": tasks do not share memory
	GPUs   int    `koanf:"gpus" yaml:"gpus"`
}

// Docker configures executors with the driver docker.
type Docker struct {
	Host    string `koanf:"host" yaml:"host"`       // of the daemon; "": the default of the docker command
	Network string `koanf:"network" yaml:"network"` // of the containers; "": the daemon's default
	// HostAccess lets tasks mount paths of the host and use its devices, as far as their
	// pool allows them.
	HostAccess bool `koanf:"host_access" yaml:"host_access"`
}

// Kubernetes configures executors with the driver kubernetes.
type Kubernetes struct {
	// Kubeconfig is a file, Context one of its contexts. If both are empty, the
	// cluster is the one that the process runs in, or else the default of kubectl.
	Kubeconfig string `koanf:"kubeconfig" yaml:"kubeconfig"`
	Context    string `koanf:"context" yaml:"context"`
	Namespace  string `koanf:"namespace" yaml:"namespace"` // of the pods; "": the namespace of the process, or of the context
	// HelperImage is an image with the shim at /bin/drover-shim; "" means
	// drover:VERSION.
	HelperImage      string `koanf:"helper_image" yaml:"helper_image"`
	HelperPullPolicy string `koanf:"helper_pull_policy" yaml:"helper_pull_policy"` // if_not_present, always or never
	// PendingTimeout is how long a pod may wait for a node, or for the namespace's
	// quota, before its task fails; 0: no limit.
	PendingTimeout time.Duration `koanf:"pending_timeout" yaml:"pending_timeout"`
	// LeaseDuration is how long after its last renewal the lease of a member of an
	// executor set expires.
	LeaseDuration time.Duration `koanf:"lease_duration" yaml:"lease_duration"`
}

// Fleet configures a fleet worker, which runs the plugins of fleets on its host.
type Fleet struct {
	Names    []string `koanf:"names" yaml:"names"`         // of the fleets that the worker manages; empty: all
	StateDir string   `koanf:"state_dir" yaml:"state_dir"` // of the plugins, which the next process takes over
	// PluginPath lists the directories of the plugins. No program outside of them
	// is run as a plugin, even if a fleet names one.
	PluginPath []string `koanf:"plugin_path" yaml:"plugin_path"`
	// PluginEnv names the variables of this process that are passed to plugins, in
	// addition to those that every program needs; NAME* means all with this prefix.
	PluginEnv []string `koanf:"plugin_env" yaml:"plugin_env"`
	// Bootstrap configures fleets with bootstrap: ssh.
	Bootstrap FleetBootstrap `koanf:"bootstrap" yaml:"bootstrap"`
}

// Dev configures all of Drover in one process.
type Dev struct {
	DataDir    string `koanf:"data_dir" yaml:"data_dir"`
	HTTP       string `koanf:"http" yaml:"http"`               // where the gateway listens
	Temporal   string `koanf:"temporal" yaml:"temporal"`       // where the embedded Temporal server listens
	TemporalUI string `koanf:"temporal_ui" yaml:"temporal_ui"` // where its web UI listens; "": none
	// Executors lists the drivers: shell, docker, none. Empty: shell, and docker if
	// a daemon answers.
	Executors []string `koanf:"executors" yaml:"executors"`
	Slots     int      `koanf:"slots" yaml:"slots"` // of each executor; 0: the number of processors of the host
}

// Default returns the default configuration.
func Default() Config {
	return Config{
		Log:     Log{Level: "info", Format: "text"},
		Records: Records{Driver: "sqlite"},
		Logs:    Logs{MaxMiB: 256},
		Archives: Archives{
			MaxBytes: 10 << 30, MaxEntries: 1_000_000, MaxContentBytes: 50 << 30, CacheMaxBytes: 5 << 30, CacheTotalBytes: 50 << 30,
			CacheMaxAge: 14 * 24 * time.Hour, WorkspaceMaxAge: 3 * 24 * time.Hour, ArtifactMaxAge: 30 * 24 * time.Hour,
		},
		Retention: Retention{Interval: time.Hour, PerSecond: 100, Executors: ExecutorRetention{MaxAge: 30 * 24 * time.Hour}, Audit: AuditRetention{MaxAge: 400 * 24 * time.Hour}},
		Gateway:   Gateway{Listen: "127.0.0.1:8080", Hosts: []string{}, TrustedProxies: []string{}, CodecOrigins: []string{}, ShutdownTimeout: 10 * time.Second, AccessLog: "calls", SessionIdle: 12 * time.Hour, SessionMax: 7 * 24 * time.Hour, OIDC: defaultOIDC()},
		Relay:     Relay{Listen: "127.0.0.1:7234", MaxPolls: 200, ShutdownTimeout: 10 * time.Second},
		Executor: Executor{
			Labels: map[string]string{}, GatewayURL: "http://127.0.0.1:8080", CheckoutStoreSize: "10Gi",
			Kubernetes: Kubernetes{HelperPullPolicy: "if_not_present", PendingTimeout: 10 * time.Minute, LeaseDuration: 12 * time.Second},
		},
		Fleet: Fleet{
			Names: []string{}, PluginPath: []string{"/usr/lib/drover/plugins"}, PluginEnv: []string{},
			Bootstrap: FleetBootstrap{GatewayURL: "http://127.0.0.1:8080", Lifetime: 24 * time.Hour, ReadyTimeout: 10 * time.Minute, RegisterTimeout: 2 * time.Minute},
		},
		Dev: Dev{
			DataDir: "drover-data", HTTP: "127.0.0.1:8080", Temporal: "127.0.0.1:7233", TemporalUI: "127.0.0.1:8233",
			Executors: []string{},
		},
	}
}
