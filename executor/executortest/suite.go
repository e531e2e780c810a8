// Package executortest holds the conformance suite that every driver passes, and a
// scripted driver for tests of packages that use a driver.
//
// A driver's tests are two functions:
//
//	func open(config string) (executor.Driver, error) { ... }
//
//	func TestMain(m *testing.M) {
//		executortest.Child(open)
//		os.Exit(m.Run())
//	}
//
//	func TestConformance(t *testing.T) {
//		executortest.Run(t, open, func(t *testing.T) executortest.Harness { ... })
//	}
//
// Child lets the suite run the driver in a process that it kills.
package executortest

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// Open creates a driver from the configuration of a harness. Two drivers of the
// same configuration are the same executor, before and after a restart. A driver
// that is an io.Closer is closed after its case.
type Open func(config string) (executor.Driver, error)

// Harness describes a driver to the suite. Each case has a harness of its own;
// cases run in parallel.
type Harness struct {
	// Config is passed to Open.
	Config string
	// Image is a local image with /bin/sh and the usual commands; "" for drivers
	// without images.
	Image string
	// GitImage is a local image as Image, with git; "" for none.
	GitImage string
	// GitRepository is a repository of NewRepository, at this path on the host and in
	// GitImage; "" for none. The driver has object stores if there is one.
	GitRepository string
	// GitStores is the directory of the object stores, if tasks can write to it; "" if not.
	GitStores string
	// User is a user that exists in Image, for drivers that have users.
	User NamedUser
	// RequireNetworks skips the test if services cannot have networks of their own on this
	// host, although the driver has them; nil if they always can.
	RequireNetworks func(t testing.TB)
	// Vanish kills the environment of a key, including the shim, from outside of the
	// driver.
	Vanish func(t testing.TB, key run.Key)
	// VanishHelper kills the first helper container of a key from outside of the driver,
	// for drivers that have helper containers.
	VanishHelper func(t testing.TB, key run.Key)
	// KillsGroups means that the kernel may kill all processes of a container if one runs
	// out of memory, as in a cluster with control groups of version 2.
	KillsGroups bool
	// Memory is a directory of the environment above that of the secrets that are
	// files, for drivers whose environment is the host; "" is the root.
	Memory string
	// Describe returns the complete description of the environment of a key by the host
	// or the cluster; nil if there is none.
	Describe func(t testing.TB, key run.Key) string
	// Leftovers returns the remains of the harness's environments on the host:
	// containers, networks, volumes, directories, processes.
	Leftovers func(t testing.TB) []string
}

// NamedUser is a user of an image with the output of id.
type NamedUser struct {
	Name   string
	ID     string // id -u
	Groups string // id -G
}

// Run runs the conformance suite. It skips a case if the driver's Features lack one
// that the case needs.
func Run(t *testing.T, open Open, harness func(t *testing.T) Harness) {
	t.Helper()
	for _, group := range [][]testCase{lifeCases(), crashCases(), stepCases(), outputCases(), streamCases(), environmentCases(), containerCases(), networkCases(), archiveCases(), secretFileCases(), damageCases(), cleanupCases(), execCases(), helperCases(), checkoutCases(), volumeCases(), hostCases()} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				h := harness(t)
				b := &bench{T: t, Harness: h, open: open}
				b.driver = b.reopen()
				d := b.driver
				if c.needs != nil && !c.needs(d.Features()) {
					t.Skipf("the driver %s does not have what %s tests", d.Features().Name, c.name)
				}
				c.run(b)
				if !t.Failed() {
					b.requireNothingLeft()
				}
			})
		}
	}
}

// testCase is one case of the suite. It removes all environments that it created.
type testCase struct {
	name  string
	needs func(executor.Features) bool
	run   func(*bench)
}

// bench is the context of a case.
type bench struct {
	*testing.T
	Harness
	open   Open
	driver executor.Driver
}

// reopen returns another driver of the same executor, as after a restart.
func (b *bench) reopen() executor.Driver {
	b.Helper()
	d, err := b.open(b.Config)
	require.NoError(b, err)
	if c, ok := d.(io.Closer); ok {
		b.Cleanup(func() { require.NoError(b, c.Close()) })
	}
	return d
}

func (b *bench) requireNothingLeft() {
	b.Helper()
	keys, err := b.driver.List(b.Context())
	require.NoError(b, err)
	require.Empty(b, keys, "environments that were not removed")
	if b.Leftovers == nil {
		return
	}
	testenv.Await(b, func() (bool, string) {
		left := b.Leftovers(b)
		return len(left) == 0, "left on the host: " + join(left)
	})
}
