// Package fleeting drives instance groups through the unmodified plugins of the
// fleeting ecosystem. A Host supervises the one plugin process of a group:
// launches it under a guard that ends it when nobody is left to steer it, gives
// every call a deadline, launches it again after a crash, and takes it over
// from a host that was killed. See docs/fleeting-plugins.md.
package fleeting
