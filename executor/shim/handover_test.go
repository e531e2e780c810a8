package shim

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/run"
)

const wholeOrder = `{"v":1,"first_frame":7,"definition":{"steps":[{"script":"true"}]}}` + "\n"

// startReceiver starts a receiver that begins the journal for the first order.
func startReceiver(t *testing.T, dir string) (order chan run.ShimSpec) {
	t.Helper()
	r, err := newReceiver(t.Context(), dir)
	require.NoError(t, err)
	order = make(chan run.ShimSpec, 1)
	go func() {
		o, err := r.receive()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, journal.File), nil, 0o600)
		}
		r.answer(err)
		order <- o
	}()
	return order
}

func TestHandover(t *testing.T) {
	t.Parallel()
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		order := startReceiver(t, dir)
		require.NoError(t, Handover(t.Context(), dir, []byte(wholeOrder)))
		require.EqualValues(t, 7, (<-order).FirstFrame)
		require.NoFileExists(t, filepath.Join(dir, HandoverFile))
		require.ErrorIs(t, Handover(t.Context(), dir, []byte(wholeOrder)), ErrBegun)
	})
	t.Run("by many at once", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		order := startReceiver(t, dir)
		const clients = 8
		errs := make([]error, clients)
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() { errs[i] = Handover(t.Context(), dir, []byte(wholeOrder)) })
		}
		all.Wait()
		<-order
		given := 0
		for _, err := range errs {
			if err == nil {
				given++
				continue
			}
			require.ErrorIs(t, err, ErrBegun)
		}
		require.Equal(t, 1, given)
	})
	t.Run("refused, then taken", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		order := startReceiver(t, dir)
		err := Handover(t.Context(), dir, []byte(`{"v":99,"first_frame":1}`))
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		require.ErrorContains(t, err, "version 99")
		require.NoError(t, Handover(t.Context(), dir, []byte(wholeOrder)))
		<-order
	})
	t.Run("cut off, then taken", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		order := startReceiver(t, dir)
		answered, err := tryHandover(t.Context(), dir, []byte(wholeOrder[:20]))
		require.False(t, answered && err == nil)
		require.NoError(t, Handover(t.Context(), dir, []byte(wholeOrder)))
		<-order
	})
	t.Run("to a shim that comes later", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		given := make(chan error, 1)
		go func() { given <- Handover(t.Context(), dir, []byte(wholeOrder)) }()
		order := startReceiver(t, dir)
		require.NoError(t, <-given)
		<-order
	})
	t.Run("without a shim", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, Handover(ctx, t.TempDir(), []byte(wholeOrder)), ErrNoShim)
	})
}

func TestComplete(t *testing.T) {
	t.Parallel()
	surroundings := Options{Environment: map[string]string{"PATH": "/image", "HOME": "/root", "A": "image"}, WorkingDir: "/image"}
	for name, tt := range map[string]struct {
		order run.ShimSpec
		env   map[string]string
		dir   string
	}{
		"defaults of the environment": {run.ShimSpec{}, map[string]string{"PATH": "/image", "HOME": "/root", "A": "image"}, "/image"},
		"the order takes precedence": {
			run.ShimSpec{BaseEnvironment: map[string]string{"A": "order"}, WorkingDir: "/order"},
			map[string]string{"PATH": "/image", "HOME": "/root", "A": "order"},
			"/order",
		},
		"another user has another home": {
			run.ShimSpec{Definition: run.Definition{User: "1000"}}, map[string]string{"PATH": "/image", "A": "image"}, "/image",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, err := json.Marshal(tt.order)
			require.NoError(t, err)
			order := tt.order
			surroundings.complete(&order)
			require.Equal(t, tt.env, order.BaseEnvironment)
			require.Equal(t, tt.dir, order.WorkingDir)
			after, err := json.Marshal(tt.order)
			require.NoError(t, err)
			require.JSONEq(t, string(before), string(after))
		})
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, Install(dir, "it"))
	require.NoError(t, Install(dir, "it"), "a second time")
	info, err := os.Stat(filepath.Join(dir, "it"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o555), info.Mode())
	self, err := os.Executable()
	require.NoError(t, err)
	want, err := os.Stat(self)
	require.NoError(t, err)
	require.Equal(t, want.Size(), info.Size())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Error(t, Install(filepath.Join(dir, "absent"), "it"))
}
