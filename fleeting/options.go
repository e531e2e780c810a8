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

// Options say which plugin drives which group, and how.
type Options struct {
	Plugin    string          // a path, or a name on the plugin path
	Path      []string        // directories that names are looked up in
	Confined  bool            // only programs of these directories are run, since clients of an API name the plugin
	Dir       string          // the group's directory, on a disk of this host; one process at a time owns it
	Config    json.RawMessage // the plugin's configuration, handed over as it is
	Connector Connector
	PassEnv   []string      // variables of this process that the plugin gets beside those that each gets; NAME* for all that begin like it
	Guard     []string      // what runs Guard with the arguments after it; nil: this executable with GuardCommand
	Grace     time.Duration // how long a plugin outlives its host; 0: one minute
	Timeouts  Timeouts
	Logger    *slog.Logger

	env []string // of the plugin
}

// Timeouts bound the calls; zero values have defaults.
type Timeouts struct {
	Launch, Init, Update, Change, ConnectInfo, Heartbeat, Shutdown time.Duration

	// Beside is how long a listing waits for a change that runs, before it is
	// asked for beside it.
	Beside time.Duration
}

const (
	defaultGrace = time.Minute
	// GuardCommand is the hidden command of the drover executable that runs Guard.
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
		{&t.Beside, 5 * time.Second},
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
		return o, errors.New("a plugin host needs a directory")
	}
	if len(o.Config) == 0 {
		o.Config = json.RawMessage("{}") // plugins decode it whatever it is
	}
	if !json.Valid(o.Config) {
		return o, errors.New("the plugin's configuration is not JSON")
	}
	if o.Connector, err = o.Connector.withDefaults(); err != nil {
		return o, err
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, fmt.Errorf("finding the group's directory: %w", err)
	}
	o.env = environment(o.PassEnv)
	if len(o.Guard) == 0 {
		self, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("finding this executable: %w", err)
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

// settingsDigest identifies what a plugin was initialised with: one that got
// other settings is not taken over. Of its environment the variables count that
// were named: the others differ with every start of a service.
func (o Options) settingsDigest() (string, error) {
	given := slices.DeleteFunc(slices.Clone(o.env), func(v string) bool { return !named(v, o.PassEnv) })
	slices.Sort(given)
	text, err := json.Marshal([]any{o.Plugin, o.Config, o.Connector, given})
	if err != nil {
		return "", fmt.Errorf("encoding the settings: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
