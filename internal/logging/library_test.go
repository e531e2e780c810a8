package logging_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/logging"
)

func TestLibrary(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]string{
		slog.LevelInfo:  "level=WARN msg=lost component=sdk a.n=1\n",
		slog.LevelDebug: "level=DEBUG msg=started component=sdk a.n=1\nlevel=WARN msg=lost component=sdk a.n=1\n",
	} {
		var out bytes.Buffer
		options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}
		l := logging.Library(slog.New(slog.NewTextHandler(&out, options))).With("component", "sdk").WithGroup("a")
		l.Info("started", "n", 1)
		l.Warn("lost", "n", 1)
		require.Equal(t, want, out.String())
	}
}
