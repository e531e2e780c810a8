// Package fleeting drives instance groups through unmodified fleeting plugins.
// A Host supervises the plugin process of one group. It launches the plugin
// under a guard, which ends the plugin if no host drives the group any longer.
// It gives every call a deadline, relaunches the plugin after a crash, and
// takes it over from a host that was killed. See docs/fleeting-plugins.md.
package fleeting
