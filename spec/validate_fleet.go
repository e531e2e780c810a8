package spec

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

// Bounds of the intervals of a fleet: a listing costs a call to a cloud.
const (
	minFleetInterval = 10 * time.Millisecond
	maxFleetInterval = 24 * time.Hour
	maxThreshold     = 1000
)

// ValidateFleet returns the faults of the specification of a fleet, except
// those of its scaling, which package scaling validates.
func ValidateFleet(name string, s run.FleetSpec) []run.Fault {
	l := newFaultList()
	if !run.ValidName(name) {
		l.add("name", run.FaultBadFormat, "%s is not a name: 1 to %d of a to z, 0 to 9, dot, underscore and dash", quote(name), run.MaxNameLength)
	}
	if s.Pool == "" {
		l.add("pool", run.FaultRequired, "a fleet serves a pool")
	} else if !run.ValidName(s.Pool) {
		l.add("pool", run.FaultBadFormat, "%s is not the name of a pool", quote(s.Pool))
	}
	if s.Plugin == "" {
		l.add("plugin", run.FaultRequired, "a fleet has a plugin: its path, or its name on the plugin path")
	}
	if s.Priority < -run.MaxFleetPriority || s.Priority > run.MaxFleetPriority {
		l.add("priority", run.FaultOutOfRange, "it is %d; it must be from -%d to %d", s.Priority, run.MaxFleetPriority, run.MaxFleetPriority)
	}
	checkAllowedGroups(l, s.AllowedGroups)
	checkLabels(l, "labels", s.Labels)
	checkResources(l, "resources", s.Resources)
	if s.Resources.PIDs != 0 {
		l.add("resources.pids", run.FaultContradiction, "executors offer cpu, memory and gpus")
	}
	for _, reserved := range []string{run.LabelFleet, run.LabelInstance} {
		if _, ok := s.Labels[reserved]; ok {
			l.add(run.Path("labels").Key(reserved), run.FaultContradiction, "Drover sets this label on the executors of a fleet")
		}
	}
	checkText(l, "plugin", s.Plugin)
	if slices.Contains(strings.Split(s.Plugin, "/"), "..") {
		l.add("plugin", run.FaultBadFormat, "%s has ..: a plugin is a name, or a path, in a directory of the plugin path", quote(s.Plugin))
	}
	checkText(l, "instance_ready_command", s.InstanceReadyCommand)
	if len(s.PluginConfig) > run.MaxFleetConfig {
		l.add("plugin_config", run.FaultOverLimit, "it has %d bytes; the limit is %d", len(s.PluginConfig), run.MaxFleetConfig)
	} else if len(s.PluginConfig) > 0 && !strings.HasPrefix(strings.TrimSpace(string(s.PluginConfig)), "{") || len(s.PluginConfig) > 0 && !json.Valid(s.PluginConfig) {
		l.add("plugin_config", run.FaultWrongType, "it must be a map")
	}
	checkEnum(l, "bootstrap", s.Bootstrap, run.BootstrapSSH, run.BootstrapAgent)
	checkEnum(l, "unexpected", s.Unexpected, run.UnexpectedAdopt, run.UnexpectedIgnore, run.UnexpectedRemove)
	checkFleetTimes(l, s)
	checkFleetConnector(l, s.ConnectorConfig)
	checkFleetUpdate(l, s.Update)
	if s.FailureThreshold < 0 || s.FailureThreshold > maxThreshold {
		l.add("failure_threshold", run.FaultOutOfRange, "it is %d; it must be from 1 to %d", s.FailureThreshold, maxThreshold)
	}
	if q := s.Quota; q != nil {
		if !run.ValidName(q.Name) {
			l.add("quota.name", run.FaultBadFormat, "%s is not a name of 1 to %d of a to z, 0 to 9, dot, underscore and dash", quote(q.Name), run.MaxNameLength)
		}
		if q.Limit <= 0 {
			l.add("quota.limit", run.FaultOutOfRange, "it is %g; it must be above 0", q.Limit)
		}
	}
	if s.Memory != "" {
		if _, err := run.ParseMemory(s.Memory); err != nil {
			l.add("memory", run.FaultBadFormat, "%s is not an amount of memory such as 8Gi", quote(s.Memory))
		}
	}
	return l.faults
}

func checkFleetTimes(l *faultList, s run.FleetSpec) {
	for _, c := range []struct {
		path  run.Path
		value run.Duration
	}{
		{"update_interval", s.UpdateInterval},
		{"update_interval_when_expecting", s.UpdateIntervalWhenExpecting},
		{"deletion_retry_interval", s.DeletionRetryInterval},
		{"drain_timeout", s.DrainTimeout},
		{"instance_acquire_timeout", s.InstanceAcquireTimeout},
	} {
		if d := c.value.Std(); d != 0 && (d < minFleetInterval || d > maxFleetInterval) {
			l.add(c.path, run.FaultOutOfRange, "it is %s; it must be from %s to %s", d, minFleetInterval, maxFleetInterval)
		}
	}
}

func checkFleetConnector(l *faultList, c run.FleetConnector) {
	const path = run.Path("connector_config")
	if c.Protocol == "winrm" || c.Protocol == "winrm+https" {
		l.add(path.Key("protocol"), run.CodeNotSupported, "Drover connects to instances by ssh only, and not by %s", c.Protocol)
	} else {
		checkEnum(l, path.Key("protocol"), c.Protocol, "ssh")
	}
	if c.ProtocolPort < 0 || c.ProtocolPort > 65535 {
		l.add(path.Key("protocol_port"), run.FaultOutOfRange, "%d is not a port", c.ProtocolPort)
	}
	if c.UseStaticCredentials && c.Username == "" {
		l.add(path.Key("username"), run.FaultRequired, "static credentials need a username")
	}
	for _, d := range []struct {
		key   string
		value run.Duration
	}{{"keepalive", c.Keepalive}, {"timeout", c.Timeout}} {
		if d.value < 0 {
			l.add(path.Key(d.key), run.FaultOutOfRange, "it must not be negative")
		}
	}
}

// ValidateFleetControl returns the faults of a manual action.
func ValidateFleetControl(s run.FleetControl) []run.Fault {
	l := newFaultList()
	if s.Action == run.FleetActionScale && (s.Instances < 0 || s.Instances > 100_000) {
		l.add("instances", run.FaultOutOfRange, "it is %d; it must be from 0 to 100000", s.Instances)
	}
	return l.faults
}

func checkFleetUpdate(l *faultList, u run.FleetUpdate) {
	const path = run.Path("update")
	none := 0
	for _, a := range []struct {
		key   string
		value run.Amount
	}{{"max_surge", u.MaxSurge}, {"max_unavailable", u.MaxUnavailable}} {
		if a.value == "" {
			continue
		}
		n, percent, err := a.value.Parse()
		switch {
		case err != nil:
			l.add(path.Key(a.key), run.FaultBadFormat, "%s is not a number or a percentage such as 25%%", quote(string(a.value)))
		case percent && n > 100, n > 100_000:
			l.add(path.Key(a.key), run.FaultOutOfRange, "it is %s; it must be from 0 to 100000, or from 0%% to 100%%", a.value)
		case n == 0:
			none++
		}
	}
	if none == 2 {
		l.add(path.Key("max_unavailable"), run.FaultContradiction, "it is 0 and max_surge is 0: no instance could be replaced")
	}
}
