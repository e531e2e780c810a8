package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Executor is the configuration of the executors of a fleet.
// docs/configuration.md has the names in the executors' files.
type Executor struct {
	Pool       string
	Driver     string
	Slots      int
	Labels     map[string]string
	Resources  Resources // that it offers
	Privileged bool
	// RemoveAfter is how long an executor may be out of contact before it is
	// removed; 0: ten minutes.
	RemoveAfter time.Duration
	// Gateway is the URL of the gateway; InsecureGateway allows one that is
	// neither https nor loopback.
	Gateway         string
	InsecureGateway bool
	// Relay describes how instances reach Temporal. Without its address they
	// connect to Temporal directly, and are trusted like operators.
	Relay Relay
	// Temporal is the address of Temporal, and Namespace its namespace.
	Temporal, Namespace string
	LogLevel            string // "": info
}

// Resources are what an executor offers; "" and 0 for none.
type Resources struct {
	CPU, Memory string
	GPUs        int
}

// Relay describes the connection to a relay.
type Relay struct {
	Address    string
	CA         []byte // authority of its certificate, in PEM; nil: the hosts' own authorities
	ServerName string
	Insecure   bool
}

func (e Executor) validate() error {
	switch {
	case e.Pool == "" || e.Driver == "":
		return errors.New("executors of a fleet need a pool and a driver")
	case e.Slots < 1:
		return errors.New("executors of a fleet need at least one slot")
	case e.Gateway == "":
		return errors.New("executors of a fleet need the URL of the gateway")
	case e.Relay.Address == "" && e.Temporal == "":
		return errors.New("executors of a fleet need the address of a relay, or of Temporal")
	}
	return nil
}

// paths of an executor on its host.
type paths struct {
	state, token, ca string
}

// file returns the executor's configuration file.
func (e Executor) file(id string, p paths) ([]byte, error) {
	executor := map[string]any{
		"id": id, "pool": e.Pool, "driver": e.Driver, "slots": e.Slots, "state_dir": p.state, "token_file": p.token,
		"gateway_url": e.Gateway, "temporary": true,
	}
	set := func(in map[string]any, key string, value any, wanted bool) {
		if wanted {
			in[key] = value
		}
	}
	set(executor, "labels", e.Labels, len(e.Labels) > 0)
	resources := map[string]any{}
	set(resources, "cpu", e.Resources.CPU, e.Resources.CPU != "")
	set(resources, "memory", e.Resources.Memory, e.Resources.Memory != "")
	set(resources, "gpus", e.Resources.GPUs, e.Resources.GPUs > 0)
	set(executor, "resources", resources, len(resources) > 0)
	set(executor, "privileged", true, e.Privileged)
	set(executor, "remove_after", e.RemoveAfter.String(), e.RemoveAfter > 0)
	set(executor, "insecure_gateway", true, e.InsecureGateway)
	temporal := map[string]any{}
	set(temporal, "namespace", e.Namespace, e.Namespace != "")
	if e.Relay.Address == "" {
		temporal["address"] = e.Temporal
	} else {
		relay := map[string]any{"address": e.Relay.Address}
		set(relay, "ca_file", p.ca, len(e.Relay.CA) > 0)
		set(relay, "server_name", e.Relay.ServerName, e.Relay.ServerName != "")
		set(relay, "insecure", true, e.Relay.Insecure)
		executor["relay"] = relay
	}
	log := map[string]any{"format": "json"}
	set(log, "level", e.LogLevel, e.LogLevel != "")
	out := bytes.NewBufferString("# Written when this host became an executor of a fleet, and again with every change.\n")
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(map[string]any{"log": log, "temporal": temporal, "executor": executor}); err != nil {
		return nil, fmt.Errorf("write the executor's configuration: %w", err)
	}
	return out.Bytes(), nil
}
