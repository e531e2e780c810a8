package fleeting

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Options configure the plugin of a group and its host.
type Options struct {
	Plugin    string          // a path, or a name on the plugin path
	Path      []string        // directories for the lookup of names
	Confined  bool            // only programs in Path may run, because API clients name the plugin
	Dir       string          // the group's directory, on a local disk; one process at a time owns it
	Config    json.RawMessage // the plugin's configuration, passed unchanged
	Connector Connector
	PassEnv   []string      // variables of this process that the plugin gets besides the default ones; NAME* matches a prefix
	Guard     []string      // the command that runs Guard with the arguments after it; nil: this executable with GuardCommand
	Grace     time.Duration // how long a plugin outlives its host; 0: one minute
	Timeouts  Timeouts
	Logger    *slog.Logger

	env []string // of the plugin
}

// Timeouts bound the calls; zero values have defaults.
type Timeouts struct {
	Launch, Init, Update, Change, ConnectInfo, Heartbeat, Shutdown time.Duration

	// ListingWait is how long a listing waits for a running change before it runs
	// concurrently with it.
	ListingWait time.Duration
}

const (
	defaultGrace = time.Minute
	// GuardCommand is the hidden command of the drover executable that runs
	// Guard.
	GuardCommand = "plugin-guard"
)

func (t Timeouts) withDefaults() Timeouts {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&t.Launch, time.Minute},
		{&t.Init, 5 * time.Minute},
		{&t.Update, 2 * time.Minute},
		{&t.Change, 5 * time.Minute},
		{&t.ConnectInfo, 2 * time.Minute},
		{&t.Heartbeat, 30 * time.Second},
		{&t.Shutdown, 30 * time.Second},
		{&t.ListingWait, 5 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	return t
}

func (o Options) withDefaults() (Options, error) {
	var err error
	find := Find
	if o.Confined {
		find = findConfined
	}
	if o.Plugin, err = find(o.Plugin, o.Path); err != nil {
		return o, err
	}
	if o.Dir == "" {
		return o, errors.New("a plugin host requires a directory")
	}
	if len(o.Config) == 0 {
		o.Config = json.RawMessage("{}") // plugins always decode a configuration
	}
	if !json.Valid(o.Config) {
		return o, errors.New("the plugin's configuration is not JSON")
	}
	if o.Connector, err = o.Connector.withDefaults(); err != nil {
		return o, err
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, fmt.Errorf("find the group's directory: %w", err)
	}
	o.env = environment(o.PassEnv)
	if len(o.Guard) == 0 {
		self, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("find this executable: %w", err)
		}
		o.Guard = []string{self, GuardCommand}
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Timeouts = o.Timeouts.withDefaults()
	return o, nil
}

// settingsDigest identifies the settings of a plugin: a host takes over only a
// plugin with the same settings. Of the environment, the digest includes only
// the variables that the options list: the others differ at every start of a
// service.
func (o Options) settingsDigest() (string, error) {
	given := slices.DeleteFunc(slices.Clone(o.env), func(v string) bool { return !matchesAny(v, o.PassEnv) })
	slices.Sort(given)
	text, err := json.Marshal([]any{o.Plugin, o.Config, o.Connector, given})
	if err != nil {
		return "", fmt.Errorf("encode the settings: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
