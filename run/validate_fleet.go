package run

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Defaults of a fleet.
const (
	DefaultUpdateInterval    = time.Minute
	DefaultExpectingInterval = 2 * time.Second
	DefaultDeletionRetry     = time.Minute
	DefaultDrainTimeout      = time.Hour
	DefaultFailureThreshold  = 3
)

// Bounds of the intervals of a fleet: a listing costs a call to a cloud.
const (
	minFleetInterval = 10 * time.Millisecond
	maxFleetInterval = 24 * time.Hour
	maxThreshold     = 1000
)

// ValidateFleet returns the faults of the specification of a fleet, except
// those of its scaling, which package scaling validates.
func ValidateFleet(name string, s FleetSpec) []Fault {
	l := newFaultList()
	if !ValidName(name) {
		l.add("name", FaultBadFormat, "%s is not a name: 1 to %d of a to z, 0 to 9, dot, underscore and dash", brief(name), MaxNameLength)
	}
	if s.Pool == "" {
		l.add("pool", FaultRequired, "a fleet serves a pool")
	} else if !ValidName(s.Pool) {
		l.add("pool", FaultBadFormat, "%s is not the name of a pool", brief(s.Pool))
	}
	if s.Plugin == "" {
		l.add("plugin", FaultRequired, "a fleet has a plugin: its path, or its name on the plugin path")
	}
	if s.Priority < -MaxFleetPriority || s.Priority > MaxFleetPriority {
		l.add("priority", FaultOutOfRange, "it is %d; it must be from -%d to %d", s.Priority, MaxFleetPriority, MaxFleetPriority)
	}
	checkText(l, "plugin", s.Plugin)
	if slices.Contains(strings.Split(s.Plugin, "/"), "..") {
		l.add("plugin", FaultBadFormat, "%s has ..: a plugin is a name, or a path, in a directory of the plugin path", brief(s.Plugin))
	}
	checkText(l, "instance_ready_command", s.InstanceReadyCommand)
	if len(s.PluginConfig) > MaxFleetConfig {
		l.add("plugin_config", FaultOverLimit, "it has %d bytes; the limit is %d", len(s.PluginConfig), MaxFleetConfig)
	} else if len(s.PluginConfig) > 0 && !strings.HasPrefix(strings.TrimSpace(string(s.PluginConfig)), "{") || len(s.PluginConfig) > 0 && !json.Valid(s.PluginConfig) {
		l.add("plugin_config", FaultWrongType, "it must be a map")
	}
	checkEnum(l, "bootstrap", s.Bootstrap, BootstrapSSH, BootstrapAgent)
	checkEnum(l, "unexpected", s.Unexpected, UnexpectedAdopt, UnexpectedIgnore, UnexpectedRemove)
	checkFleetTimes(l, s)
	checkFleetConnector(l, s.ConnectorConfig)
	if s.FailureThreshold < 0 || s.FailureThreshold > maxThreshold {
		l.add("failure_threshold", FaultOutOfRange, "it is %d; it must be from 1 to %d", s.FailureThreshold, maxThreshold)
	}
	if q := s.Quota; q != nil {
		if !ValidName(q.Name) {
			l.add("quota.name", FaultBadFormat, "%s is not a name of 1 to %d of a to z, 0 to 9, dot, underscore and dash", brief(q.Name), MaxNameLength)
		}
		if q.Limit <= 0 {
			l.add("quota.limit", FaultOutOfRange, "it is %g; it must be above 0", q.Limit)
		}
	}
	if s.Memory != "" {
		if _, err := ParseMemory(s.Memory); err != nil {
			l.add("memory", FaultBadFormat, "%s is not an amount of memory such as 8Gi", brief(s.Memory))
		}
	}
	return l.faults
}

func checkFleetTimes(l *faultList, s FleetSpec) {
	for _, c := range []struct {
		path  Path
		value Duration
	}{
		{"update_interval", s.UpdateInterval},
		{"update_interval_when_expecting", s.UpdateIntervalWhenExpecting},
		{"deletion_retry_interval", s.DeletionRetryInterval},
		{"drain_timeout", s.DrainTimeout},
	} {
		if d := c.value.Std(); d != 0 && (d < minFleetInterval || d > maxFleetInterval) {
			l.add(c.path, FaultOutOfRange, "it is %s; it must be from %s to %s", d, minFleetInterval, maxFleetInterval)
		}
	}
}

func checkFleetConnector(l *faultList, c FleetConnector) {
	const path = Path("connector_config")
	checkEnum(l, path.Key("protocol"), c.Protocol, "ssh", "winrm", "winrm+https")
	if c.ProtocolPort < 0 || c.ProtocolPort > 65535 {
		l.add(path.Key("protocol_port"), FaultOutOfRange, "%d is not a port", c.ProtocolPort)
	}
	if c.UseStaticCredentials && c.Username == "" {
		l.add(path.Key("username"), FaultRequired, "static credentials need a username")
	}
	for _, d := range []struct {
		key   string
		value Duration
	}{{"keepalive", c.Keepalive}, {"timeout", c.Timeout}} {
		if d.value < 0 {
			l.add(path.Key(d.key), FaultOutOfRange, "it must not be negative")
		}
	}
}

// ValidateFleetControl returns the faults of a manual action.
func ValidateFleetControl(s FleetControl) []Fault {
	l := newFaultList()
	if s.Action == FleetActionScale && (s.Instances < 0 || s.Instances > 100_000) {
		l.add("instances", FaultOutOfRange, "it is %d; it must be from 0 to 100000", s.Instances)
	}
	return l.faults
}

// The methods below return settings of a fleet with their defaults.

// Interval returns the time between two listings.
func (s FleetSpec) Interval(expecting bool) time.Duration {
	if expecting {
		return cmp.Or(s.UpdateIntervalWhenExpecting.Std(), DefaultExpectingInterval)
	}
	return cmp.Or(s.UpdateInterval.Std(), DefaultUpdateInterval)
}

// DeletionRetry returns the time after which a deletion is requested again.
func (s FleetSpec) DeletionRetry() time.Duration {
	return cmp.Or(s.DeletionRetryInterval.Std(), DefaultDeletionRetry)
}

// DrainLimit returns how long a drain may last if the executor does not
// respond.
func (s FleetSpec) DrainLimit() time.Duration {
	return cmp.Or(s.DrainTimeout.Std(), DefaultDrainTimeout)
}

// Failures returns how many consecutive health checks may fail.
func (s FleetSpec) Failures() int {
	return cmp.Or(s.FailureThreshold, DefaultFailureThreshold)
}

// BootstrapMethod returns how instances become executors.
func (s FleetSpec) BootstrapMethod() string {
	return cmp.Or(s.Bootstrap, BootstrapAgent)
}
