// Package config is the configuration of Drover's processes: one tree with its
// defaults, read from a YAML file, the environment and flags, in that order,
// checked, and printed with its secrets hidden.
//
// It imports nothing of Drover's: cmd hands each part its own options.
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

// Log says what a process logs of itself, to standard error.
type Log struct {
	Level  string `koanf:"level" yaml:"level"`   // debug, info, warn or error
	Format string `koanf:"format" yaml:"format"` // text or json
}

// Telemetry is where a process without a gateway answers /metrics, /healthz
// and /readyz.
type Telemetry struct {
	Listen string `koanf:"listen" yaml:"listen"` // "": nowhere
}

// Temporal says how to reach the Temporal server. What is empty comes from
// Temporal's own environment and profile.
type Temporal struct {
	Address   string `koanf:"address" yaml:"address"`
	Namespace string `koanf:"namespace" yaml:"namespace"`
	Profile   string `koanf:"profile" yaml:"profile"` // of Temporal's configuration file
	// CodecKeysFile holds the keys that encrypt what Temporal is told; "" leaves
	// it in the clear.
	CodecKeysFile string `koanf:"codec_keys_file" yaml:"codec_keys_file"`
}

// Records says where the records are: everything that clients see of runs.
type Records struct {
	Driver string `koanf:"driver" yaml:"driver"` // sqlite or postgres
	Path   string `koanf:"path" yaml:"path"`     // of the file, for sqlite
	// DSN is the connection string for postgres; DSNFile names a file that
	// holds it instead.
	DSN     Secret `koanf:"dsn" yaml:"dsn"`
	DSNFile string `koanf:"dsn_file" yaml:"dsn_file"`
	// Keys encrypt the secrets in the records, one a line, the first for what is
	// stored from now on; KeysFile names a file that holds them instead.
	Keys     Secret `koanf:"keys" yaml:"keys"`
	KeysFile string `koanf:"keys_file" yaml:"keys_file"`
}

// Blobs says where logs and archives are.
type Blobs struct {
	URL string `koanf:"url" yaml:"url"` // file:///dir, mem://, s3://bucket, gs://bucket, azblob://container
}

// Logs says what gateways keep of the logs of tasks.
type Logs struct {
	MaxMiB int `koanf:"max_mib" yaml:"max_mib"` // of one task; 0: all
}

// Retention says what control workers delete, and how often they look. All of
// them should be configured alike: the one that starts last decides.
type Retention struct {
	Interval time.Duration `koanf:"interval" yaml:"interval"`
	// PerSecond is how many runs, logs of runs and archives are removed in a
	// second, and how many hundreds of events; 0: no bound.
	PerSecond int            `koanf:"per_second" yaml:"per_second"`
	Logs      LogRetention   `koanf:"logs" yaml:"logs"`
	Runs      RunRetention   `koanf:"runs" yaml:"runs"`
	Events    EventRetention `koanf:"events" yaml:"events"`
}

// LogRetention bounds the logs of runs that have ended.
type LogRetention struct {
	MaxAge time.Duration `koanf:"max_age" yaml:"max_age"` // since the end of the run; 0: no bound
}

// RunRetention bounds the runs that have ended. A run goes with its tasks and
// their logs, once every bound allows it that is set; where none is, all stay.
type RunRetention struct {
	MaxAge time.Duration `koanf:"max_age" yaml:"max_age"` // since it was made; 0: no bound
	Keep   int           `koanf:"keep" yaml:"keep"`       // the newest of each group stay; 0: no bound
}

// EventRetention bounds the events. One goes as soon as a bound allows it that
// is set; where none is, all stay.
type EventRetention struct {
	MaxAge time.Duration `koanf:"max_age" yaml:"max_age"` // 0: no bound; likewise below
	Keep   int           `koanf:"keep" yaml:"keep"`       // the newest stay
}

// Control says how control workers take part in Temporal's worker versioning.
type Control struct {
	// Deployment is the name of the worker deployment; "" is none: workflows
	// go on with whatever worker takes them.
	Deployment string `koanf:"deployment" yaml:"deployment"`
	// BuildID is of this build in the deployment; "" is Drover's version.
	BuildID string `koanf:"build_id" yaml:"build_id"`
	// Promote makes this build the current one of the deployment once its
	// workers poll; else an operator does, with Temporal's own tools.
	Promote bool `koanf:"promote" yaml:"promote"`
}

// Gateway is the door for clients.
type Gateway struct {
	Listen string `koanf:"listen" yaml:"listen"`
	// Hosts are the names, with or without port, by which clients reach it
	// beside its own address.
	Hosts []string `koanf:"hosts" yaml:"hosts"`
	// TokenFile lists the hashes of the bearer tokens. Without it only a
	// loopback address may be listened on.
	TokenFile       string        `koanf:"token_file" yaml:"token_file"`
	TLSCertFile     string        `koanf:"tls_cert_file" yaml:"tls_cert_file"`
	TLSKeyFile      string        `koanf:"tls_key_file" yaml:"tls_key_file"`
	ShutdownTimeout time.Duration `koanf:"shutdown_timeout" yaml:"shutdown_timeout"`
	// Relay makes the gateway's process serve a relay too.
	Relay bool `koanf:"relay" yaml:"relay"`
	// RelayKeyFile holds the keys of the relays: with them, executors whose
	// tokens are bound may only claim what a relay handed to them. "" where the
	// process serves a relay means the relay's own.
	RelayKeyFile string `koanf:"relay_key_file" yaml:"relay_key_file"`
	// SecretProvidersFile names the providers that secrets of runs may be read
	// from; "" is none.
	SecretProvidersFile string `koanf:"secret_providers_file" yaml:"secret_providers_file"`
	// CodecOrigins are the origins of Temporal's web UI from which browsers may
	// ask to decode what is encrypted.
	CodecOrigins []string `koanf:"codec_origins" yaml:"codec_origins"`
}

// Executor takes the tasks of one pool.
type Executor struct {
	ID       string            `koanf:"id" yaml:"id"` // "": one that lasts, kept in the state dir
	Pool     string            `koanf:"pool" yaml:"pool"`
	Driver   string            `koanf:"driver" yaml:"driver"` // shell, docker or kubernetes
	Slots    int               `koanf:"slots" yaml:"slots"`
	StateDir string            `koanf:"state_dir" yaml:"state_dir"`
	Labels   map[string]string `koanf:"labels" yaml:"labels"`
	// Privileged allows tasks to take over the host that they run on.
	Privileged bool `koanf:"privileged" yaml:"privileged"`
	// Set makes the executor a member of an executor set: of the driver
	// kubernetes alone. It has no id that lasts then, and no state dir.
	Set string `koanf:"set" yaml:"set"`
	// DrainFinish makes a process that is told to end wait for its tasks; else
	// it leaves them to their shims and to the next process.
	DrainFinish bool `koanf:"drain_finish" yaml:"drain_finish"`
	// Temporary has the executor removed by itself once it was out of contact
	// for RemoveAfter; others are removed by operators alone.
	Temporary   bool          `koanf:"temporary" yaml:"temporary"`
	RemoveAfter time.Duration `koanf:"remove_after" yaml:"remove_after"` // 0: ten minutes
	GatewayURL  string        `koanf:"gateway_url" yaml:"gateway_url"`
	// InsecureGateway allows a gateway URL that is neither https nor loopback:
	// secrets then cross the network in the clear.
	InsecureGateway bool `koanf:"insecure_gateway" yaml:"insecure_gateway"`
	// Token is the bearer token with the scope executor; TokenFile names a
	// file that holds it instead.
	Token     Secret `koanf:"token" yaml:"token"`
	TokenFile string `koanf:"token_file" yaml:"token_file"`
	// Relay is how Temporal is reached by an executor that is not trusted.
	Relay    RelayClient `koanf:"relay" yaml:"relay"`
	ShimPath string      `koanf:"shim_path" yaml:"shim_path"` // "": drover-shim beside the drover binary
	// SecretsDir is a directory in memory for the secrets of tasks that are
	// files, of the driver shell alone; "": /dev/shm, or the user's runtime
	// directory.
	SecretsDir string     `koanf:"secrets_dir" yaml:"secrets_dir"`
	Docker     Docker     `koanf:"docker" yaml:"docker"`
	Kubernetes Kubernetes `koanf:"kubernetes" yaml:"kubernetes"`
}

// Docker is for executors of the driver docker.
type Docker struct {
	Host    string `koanf:"host" yaml:"host"`       // of the daemon; "": as the docker command finds it
	Network string `koanf:"network" yaml:"network"` // that containers join; "": the daemon's default
}

// Kubernetes is for executors of the driver kubernetes.
type Kubernetes struct {
	// Kubeconfig is a file, Context one of its contexts. Without either it is
	// the cluster that the process runs in, else what kubectl would use.
	Kubeconfig string `koanf:"kubeconfig" yaml:"kubeconfig"`
	Context    string `koanf:"context" yaml:"context"`
	Namespace  string `koanf:"namespace" yaml:"namespace"` // of the pods; "": the process's own, or the context's
	// HelperImage has the shim at /bin/drover-shim; "": drover:VERSION.
	HelperImage      string `koanf:"helper_image" yaml:"helper_image"`
	HelperPullPolicy string `koanf:"helper_pull_policy" yaml:"helper_pull_policy"` // if_not_present, always or never
	// PendingTimeout is how long a pod may wait for a node, or for room in the
	// namespace's quota, before its task fails; 0: for ever.
	PendingTimeout time.Duration `koanf:"pending_timeout" yaml:"pending_timeout"`
	// LeaseDuration is how long after its last renewal a member of a set counts
	// as vanished.
	LeaseDuration time.Duration `koanf:"lease_duration" yaml:"lease_duration"`
}

// Fleet has the plugins of fleets, which run on its host.
type Fleet struct {
	Names    []string `koanf:"names" yaml:"names"`         // of the fleets that it looks after; none: of all
	StateDir string   `koanf:"state_dir" yaml:"state_dir"` // of the plugins: what the next process takes over
	// PluginPath has the directories of the plugins. No other program is run as a
	// plugin, also where a fleet names others.
	PluginPath []string `koanf:"plugin_path" yaml:"plugin_path"`
	// PluginEnv names the variables of this process that plugins get, beside
	// those that every program needs; NAME* for all that begin like it.
	PluginEnv []string `koanf:"plugin_env" yaml:"plugin_env"`
	// Bootstrap is for fleets with bootstrap: ssh.
	Bootstrap FleetBootstrap `koanf:"bootstrap" yaml:"bootstrap"`
}

// Dev is all of Drover in one process.
type Dev struct {
	DataDir    string `koanf:"data_dir" yaml:"data_dir"`
	HTTP       string `koanf:"http" yaml:"http"`               // where the gateway listens
	Temporal   string `koanf:"temporal" yaml:"temporal"`       // where the embedded Temporal server listens
	TemporalUI string `koanf:"temporal_ui" yaml:"temporal_ui"` // where its web UI listens; "": none
	// Executors lists the drivers: shell, docker, none. Empty: shell, and
	// docker where a daemon answers.
	Executors []string `koanf:"executors" yaml:"executors"`
	Slots     int      `koanf:"slots" yaml:"slots"` // of each executor; 0: as many as the host has processors
}

// Default returns the configuration where nothing is set.
func Default() Config {
	return Config{
		Log:     Log{Level: "info", Format: "text"},
		Records: Records{Driver: "sqlite"},
		Logs:    Logs{MaxMiB: 256},
		Archives: Archives{
			MaxBytes: 10 << 30, MaxEntries: 1_000_000, MaxContentBytes: 50 << 30, CacheMaxBytes: 5 << 30, CacheTotalBytes: 50 << 30,
			CacheMaxAge: 14 * 24 * time.Hour, WorkspaceMaxAge: 3 * 24 * time.Hour, ArtifactMaxAge: 30 * 24 * time.Hour,
		},
		Retention: Retention{Interval: time.Hour, PerSecond: 100},
		Gateway:   Gateway{Listen: "127.0.0.1:8080", Hosts: []string{}, CodecOrigins: []string{}, ShutdownTimeout: 10 * time.Second},
		Relay:     Relay{Listen: "127.0.0.1:7234", MaxPolls: 200, ShutdownTimeout: 10 * time.Second},
		Executor: Executor{
			Slots: 1, Labels: map[string]string{}, GatewayURL: "http://127.0.0.1:8080",
			Kubernetes: Kubernetes{HelperPullPolicy: "if_not_present", PendingTimeout: 10 * time.Minute, LeaseDuration: 12 * time.Second},
		},
		Fleet: Fleet{
			Names: []string{}, PluginPath: []string{"/usr/lib/drover/plugins"}, PluginEnv: []string{},
			Bootstrap: FleetBootstrap{GatewayURL: "http://127.0.0.1:8080", Life: 24 * time.Hour, ReadyTimeout: 10 * time.Minute, RegisterTimeout: 2 * time.Minute},
		},
		Dev: Dev{
			DataDir: "drover-data", HTTP: "127.0.0.1:8080", Temporal: "127.0.0.1:7233", TemporalUI: "127.0.0.1:8233",
			Executors: []string{},
		},
	}
}
