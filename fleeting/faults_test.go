//go:build linux

package fleeting_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/fleetingtest/cloud"
	"github.com/drover-run/drover/internal/testenv"
)

// faulty builds a plugin with the faults that a test injects into its cloud.
func faulty(t *testing.T) string {
	t.Helper()
	return testenv.BuildProgram(t, ".", "./fleeting/fleetingtest/faulty")
}

// openOnCloud opens a host on its own cloud.
func openOnCloud(t *testing.T, s cloud.Settings, o fleeting.Options) (*fleeting.Host, *cloud.Cloud, fleeting.Options) {
	t.Helper()
	c, err := cloud.Open(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, c.Set(s))
	o.Plugin, o.Config = faulty(t), c.Config()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	return open(t, o), c, o
}

func cloudIDs(t *testing.T, c *cloud.Cloud) []string {
	t.Helper()
	ids, err := c.IDs()
	require.NoError(t, err)
	return ids
}

func listed(t *testing.T, h *fleeting.Host) (ids []string) {
	t.Helper()
	all, err := h.Update(t.Context())
	require.NoError(t, err)
	for _, i := range all {
		ids = append(ids, i.ID)
	}
	return ids
}

func count(t *testing.T, c *cloud.Cloud, call string) int {
	t.Helper()
	n, err := c.Count(call)
	require.NoError(t, err)
	return n
}

// requireCallError is an error that the plugin returned and survived.
func requireCallError(t *testing.T, err error) {
	t.Helper()
	answer := (*fleeting.CallError)(nil)
	require.ErrorAs(t, err, &answer)
}

func TestFault_quota_in_the_midst_of_Increase(t *testing.T) {
	t.Parallel()
	h, c, _ := openOnCloud(t, cloud.Settings{Quota: 2}, fleeting.Options{})
	n, err := h.Increase(t.Context(), 3)
	requireCallError(t, err)
	require.Zero(t, n, "an error response carries no count")
	require.Len(t, listed(t, h), 2, "Update lists them")
	require.Equal(t, 1, count(t, c, "Increase"), "the call was not retried")
}

func TestFault_Decrease_of_a_bad_and_three_good(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ do, left int }{
		"all are deleted":  {do: cloud.All, left: 0},
		"none are deleted": {do: 0, left: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, c, _ := openOnCloud(t, cloud.Settings{}, fleeting.Options{})
			_, err := h.Increase(t.Context(), 3)
			require.NoError(t, err)
			require.NoError(t, c.Inject(cloud.Fault{Call: "Decrease", Do: tt.do, Outcome: cloud.Fail, OnUnknown: true}))
			ids := cloudIDs(t, c)
			gone, err := h.Decrease(t.Context(), append([]string{"bad"}, ids...))
			requireCallError(t, err)
			require.Empty(t, gone)
			require.Len(t, listed(t, h), tt.left)
			_, err = h.Decrease(t.Context(), ids)
			if tt.left > 0 { // only the valid ids
				require.NoError(t, err)
			}
			require.Empty(t, listed(t, h))
		})
	}
}

func TestFault_ConnectInfo_of_an_unknown_instance_crashes(t *testing.T) {
	t.Parallel()
	h, c, o := openOnCloud(t, cloud.Settings{}, fleeting.Options{})
	_, err := h.Increase(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, c.Inject(cloud.Fault{Call: "ConnectInfo", Outcome: cloud.Crash, OnUnknown: true}))
	crashed := pluginPID(t, o.Dir)
	_, err = h.ConnectInfo(t.Context(), "unknown")
	require.ErrorIs(t, err, fleeting.ErrUnavailable)
	awaitGone(t, crashed)

	ids := cloudIDs(t, c)
	require.Equal(t, ids, listed(t, h), "the next call uses another process")
	info, err := h.ConnectInfo(t.Context(), ids[0])
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", info.InternalAddr)
	require.NotEqual(t, crashed, pluginPID(t, o.Dir))
	require.Equal(t, 2, count(t, c, "Init"))
}

func TestFault_Increase_that_creates_nothing(t *testing.T) {
	t.Parallel()
	h, c, _ := openOnCloud(t, cloud.Settings{}, fleeting.Options{})
	require.NoError(t, c.Inject(cloud.Fault{Call: "Increase", Do: 0, Outcome: cloud.FalseSuccess, Times: 1}))
	n, err := h.Increase(t.Context(), 4)
	require.NoError(t, err)
	require.Equal(t, 4, n, "the count that the plugin returned")
	require.Empty(t, listed(t, h), "Update shows that the count was wrong")
	_, err = h.Increase(t.Context(), 4)
	require.NoError(t, err)
	require.Len(t, listed(t, h), 4)
}

func TestFault_crash_in_the_midst_of_a_change(t *testing.T) {
	t.Parallel()
	h, c, _ := openOnCloud(t, cloud.Settings{}, fleeting.Options{})
	require.NoError(t, c.Inject(
		cloud.Fault{Call: "Increase", Do: 2, Outcome: cloud.Crash, Times: 1},
		cloud.Fault{Call: "Decrease", Do: 1, Outcome: cloud.Crash, Times: 1},
	))
	_, err := h.Increase(t.Context(), 3)
	require.ErrorIs(t, err, fleeting.ErrUnavailable)
	require.Len(t, listed(t, h), 2)
	require.Equal(t, 1, count(t, c, "Increase"), "calls that change the group are never repeated")
	_, err = h.Decrease(t.Context(), cloudIDs(t, c))
	require.ErrorIs(t, err, fleeting.ErrUnavailable)
	require.Len(t, listed(t, h), 1)
	require.Equal(t, 1, count(t, c, "Decrease"))
}

func TestFault_crash_after_everything_was_done(t *testing.T) {
	t.Parallel()
	h, c, _ := openOnCloud(t, cloud.Settings{}, fleeting.Options{})
	require.NoError(t, c.Inject(cloud.Fault{Call: "Increase", Do: cloud.All, Outcome: cloud.Crash, Times: 1}))
	_, err := h.Increase(t.Context(), 3)
	require.ErrorIs(t, err, fleeting.ErrUnavailable)
	require.Len(t, listed(t, h), 3)
}

func TestFault_Update_that_is_incomplete(t *testing.T) {
	t.Parallel()
	h, c, _ := openOnCloud(t, cloud.Settings{}, fleeting.Options{})
	_, err := h.Increase(t.Context(), 3)
	require.NoError(t, err)
	require.NoError(t, c.Inject(cloud.Fault{Call: "Update", Do: 1, Outcome: cloud.Fail, Times: 1}))
	all, err := h.Update(t.Context())
	requireCallError(t, err)
	require.Empty(t, all, "a partial listing would make the other instances look vanished")

	before := count(t, c, "Update")
	require.NoError(t, c.Inject(cloud.Fault{Call: "Update", Do: 1, Outcome: cloud.Crash, Times: 1}))
	require.Len(t, listed(t, h), 3, "the listing is repeated after a crash")
	require.Equal(t, before+3, count(t, c, "Update"), "and once after the launch")
}

func TestFault_slow_calls_end_at_their_deadline_and_keep_the_plugin_alive(t *testing.T) {
	t.Parallel()
	h, c, o := openOnCloud(t, cloud.Settings{}, fleeting.Options{Timeouts: fleeting.Timeouts{Change: 200 * time.Millisecond}})
	require.NoError(t, c.Inject(cloud.Fault{Call: "Decrease", Delay: time.Hour}))
	require.NoError(t, c.Appear("one"))
	plugin := pluginPID(t, o.Dir)
	_, err := h.Decrease(t.Context(), cloudIDs(t, c))
	require.ErrorIs(t, err, fleeting.ErrTimeout)
	require.NoError(t, h.Heartbeat(t.Context(), cloudIDs(t, c)[0]), "other calls are served")
	require.Equal(t, plugin, pluginPID(t, o.Dir), "a slow cloud does not end the plugin")
}

func TestFault_an_abandoned_listing_blocks_no_call(t *testing.T) {
	t.Parallel()
	h, c, _ := openOnCloud(t, cloud.Settings{CreateTime: 100 * time.Millisecond}, fleeting.Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	require.NoError(t, c.Inject(cloud.Fault{Call: "Update", Delay: time.Hour, After: 1}))
	left := errors.New("left")
	go func() {
		testenv.Await(t, func() (bool, string) { n, _ := c.Count("Update"); return n == 2, "" })
		cancel(left)
	}()
	_, err := h.Update(ctx)
	require.ErrorIs(t, err, left)
	require.NoError(t, c.Inject())
	_, err = h.Increase(t.Context(), 1)
	require.NoError(t, err)
	testenv.Await(t, func() (bool, string) {
		s := states(t, h)[cloudIDs(t, c)[0]]
		return s == fleeting.StateRunning, string(s)
	})
}

func TestFault_Increase_that_does_not_return_holds_up_no_listing(t *testing.T) {
	t.Parallel()
	h, c, _ := openOnCloud(t, cloud.Settings{}, fleeting.Options{Timeouts: fleeting.Timeouts{ListingWait: 100 * time.Millisecond}})
	require.NoError(t, c.Inject(cloud.Fault{Call: "Increase", Do: 2, Outcome: cloud.Hang, Times: 1}))
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := h.Increase(ctx, 3)
		ended <- err
	}()
	testenv.Await(t, func() (bool, string) { return len(cloudIDs(t, c)) == 2, "no machines" })
	require.Len(t, listed(t, h), 2)
	info, err := h.ConnectInfo(t.Context(), cloudIDs(t, c)[0])
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", info.InternalAddr)
	select {
	case err := <-ended:
		require.Fail(t, "it returned", err)
	default:
	}
	left := errors.New("left")
	cancel(left)
	require.ErrorIs(t, <-ended, left)
	_, err = h.Increase(t.Context(), 1)
	require.NoError(t, err, "the next change runs")
	require.Len(t, listed(t, h), 3)
}

// TestFault_listings_during_one_change covers a change that does not return: only
// its first part holds up listings, not each of them.
func TestFault_listings_during_one_change(t *testing.T) {
	t.Parallel()
	h, c, _ := openOnCloud(t, cloud.Settings{}, fleeting.Options{Timeouts: fleeting.Timeouts{ListingWait: time.Second}})
	require.NoError(t, c.Inject(cloud.Fault{Call: "Increase", Do: 1, Outcome: cloud.Hang, Times: 1}))
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := h.Increase(ctx, 1)
		ended <- err
	}()
	testenv.Await(t, func() (bool, string) { return len(cloudIDs(t, c)) == 1, "no machine" })
	waited := 0
	for range 20 {
		before := time.Now()
		_, err := h.Update(t.Context())
		require.NoError(t, err)
		if time.Since(before) >= time.Second {
			waited++
		}
	}
	require.Less(t, waited, 10, "listings that waited for the change")
	left := errors.New("left")
	cancel(left)
	require.ErrorIs(t, <-ended, left)
}

func TestFault_Init_that_fails(t *testing.T) {
	t.Parallel()
	c, err := cloud.Open(t.TempDir())
	require.NoError(t, err)
	for _, then := range []cloud.Outcome{cloud.Fail, cloud.Crash} {
		require.NoError(t, c.Inject(cloud.Fault{Call: "Init", Outcome: then, Times: 1}))
		o := fleeting.Options{Plugin: faulty(t), Config: c.Config(), Dir: t.TempDir(), Grace: time.Minute}
		_, err = fleeting.Open(t.Context(), o)
		require.Error(t, err)
		require.Empty(t, cloudIDs(t, c))
		// No process was left, and after the pause the next host launches its own.
		var h *fleeting.Host
		testenv.Await(t, func() (bool, string) {
			h, err = fleeting.Open(t.Context(), o)
			return err == nil, fmt.Sprint(err)
		})
		t.Cleanup(func() { _ = h.Shutdown(context.Background()) })
		_, err = h.Update(t.Context())
		require.NoError(t, err)
	}
}

// socketDir returns the directory of the socket of the last plugin of a group.
func socketDir(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "plugin.json"))
	require.NoError(t, err)
	var record struct {
		Addr string `json:"addr"`
	}
	require.NoError(t, json.Unmarshal(text, &record))
	require.NotEmpty(t, record.Addr)
	return filepath.Dir(record.Addr)
}

// TestFault_Init_that_fails_again_and_again covers hosts that follow each other,
// as after each listing of a fleet, and after each start of a worker: the plugin
// is launched after a pause that grows, and the errors tell when.
func TestFault_Init_that_fails_again_and_again(t *testing.T) {
	t.Parallel()
	c, err := cloud.Open(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, c.Inject(cloud.Fault{Call: "Init", Outcome: cloud.Fail}))
	o := fleeting.Options{Plugin: faulty(t), Config: c.Config(), Dir: t.TempDir(), Grace: time.Minute}
	last := time.Time{}
	for launched := 1; launched <= 3; launched++ {
		at := time.Time{}
		testenv.Await(t, func() (bool, string) {
			_, err := fleeting.Open(t.Context(), o)
			require.ErrorContains(t, err, "Init: plugin error: the cloud refused; the next try is at ")
			pause, ok := errors.AsType[*fleeting.PauseError](err)
			require.True(t, ok)
			at = pause.At
			return count(t, c, "Init") == launched, ""
		})
		require.True(t, at.After(last), "the next launch has its own pause")
		last = at
		require.NoDirExists(t, socketDir(t, o.Dir), "a plugin that was killed leaves no directory")
	}
	calls, err := c.Calls()
	require.NoError(t, err)
	var inits []time.Time
	for _, call := range calls {
		if call.Name == "Init" {
			inits = append(inits, call.At)
		}
	}
	require.Greater(t, inits[1].Sub(inits[0]), 700*time.Millisecond)
	require.Greater(t, inits[2].Sub(inits[1]), 1400*time.Millisecond)

	// Other settings are tried at once.
	require.NoError(t, c.Inject())
	o.Connector.Username = "other"
	h := open(t, o)
	require.Empty(t, listed(t, h))
}

// TestFault_a_plugin_that_ends_slowly covers a plugin that does not end when it is
// asked to, and whose guard is killed meanwhile, so that it cannot remove the
// directory of the socket.
func TestFault_a_plugin_that_ends_slowly(t *testing.T) {
	t.Parallel()
	h, _, o := openOnCloud(t, cloud.Settings{}, fleeting.Options{})
	dir := socketDir(t, o.Dir)
	require.DirExists(t, dir)
	require.NoError(t, syscall.Kill(pluginPID(t, o.Dir), syscall.SIGSTOP))
	require.NoError(t, syscall.Kill(guardPID(t, o.Dir), syscall.SIGKILL))
	require.NoError(t, h.Restart(t.Context()))
	require.NoDirExists(t, dir)
	require.DirExists(t, socketDir(t, o.Dir), "the next process has its own")
}

func TestFault_a_plugin_that_does_not_restart_is_retried_with_pauses(t *testing.T) {
	t.Parallel()
	h, c, o := openOnCloud(t, cloud.Settings{}, fleeting.Options{})
	require.NoError(t, c.Inject(cloud.Fault{Call: "Init", Outcome: cloud.Crash, Times: 1}))
	require.NoError(t, syscall.Kill(pluginPID(t, o.Dir), syscall.SIGKILL))
	_, err := h.Increase(t.Context(), 1)
	for range 3 { // the first call may have reached the process before it exited
		if err != nil {
			break
		}
		_, err = h.Increase(t.Context(), 1)
	}
	require.ErrorIs(t, err, fleeting.ErrUnavailable)
	testenv.Await(t, func() (bool, string) {
		_, err := h.Update(t.Context())
		return err == nil, ""
	})
}

func TestFault_a_second_Init_is_not_needed_by_the_next_host(t *testing.T) {
	t.Parallel()
	first, c, o := openOnCloud(t, cloud.Settings{}, fleeting.Options{})
	_, err := first.Increase(t.Context(), 2)
	require.NoError(t, err)
	// Like GitLab's fleeting client, whose second Init always fails.
	require.NoError(t, c.Inject(cloud.Fault{Call: "Init", After: 1, Outcome: cloud.Fail}))
	plugin := pluginPID(t, o.Dir)
	require.NoError(t, first.Close())
	second := open(t, o)
	require.Equal(t, plugin, pluginPID(t, o.Dir))
	require.Len(t, listed(t, second), 2)
	// A new process is initialised again.
	require.NoError(t, syscall.Kill(plugin, syscall.SIGKILL))
	awaitGone(t, plugin)
	require.Len(t, listed(t, second), 2)
}

func TestFault_a_killed_host_and_a_crash_lose_no_instance(t *testing.T) {
	t.Parallel()
	c, err := cloud.Open(t.TempDir())
	require.NoError(t, err)
	o := fleeting.Options{Plugin: faulty(t), Config: c.Config(), Dir: t.TempDir(), Grace: time.Minute}
	_, plugin := killedHost(t, o)
	require.Len(t, cloudIDs(t, c), 2)
	h := open(t, o)
	require.Equal(t, cloudIDs(t, c), listed(t, h))
	require.NoError(t, syscall.Kill(plugin, syscall.SIGKILL))
	require.Equal(t, cloudIDs(t, c), listed(t, h))
	require.NoError(t, c.Vanish(cloudIDs(t, c)[0]))
	require.NoError(t, c.Appear("unexpected"))
	require.Equal(t, cloudIDs(t, c), listed(t, h))
	require.Contains(t, listed(t, h), "unexpected")
}

func TestFault_unhealthy_instances_and_an_older_plugin(t *testing.T) {
	t.Parallel()
	h, c, _ := openOnCloud(t, cloud.Settings{Suspends: true}, fleeting.Options{})
	_, err := h.Increase(t.Context(), 1)
	require.NoError(t, err)
	ids := cloudIDs(t, c)
	done, err := h.Suspend(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, ids, done)
	require.Equal(t, fleeting.StateSuspended, states(t, h)[ids[0]])
	done, err = h.Resume(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, ids, done)
	require.NoError(t, h.Heartbeat(t.Context(), ids[0]))
	require.NoError(t, c.SetUnhealthy(ids[0]))
	require.ErrorIs(t, h.Heartbeat(t.Context(), ids[0]), fleeting.ErrUnhealthy)

	older, c, _ := openOnCloud(t, cloud.Settings{OldProtocol: true, Suspends: true}, fleeting.Options{})
	_, err = older.Increase(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, older.Heartbeat(t.Context(), cloudIDs(t, c)[0]), "the older protocol checks nothing")
	_, err = older.Suspend(t.Context(), cloudIDs(t, c))
	require.ErrorIs(t, err, fleeting.ErrNotSupported)
	require.NoError(t, older.Shutdown(t.Context()))
}
