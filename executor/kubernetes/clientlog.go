package kubernetes

import (
	"context"
	"log/slog"

	"k8s.io/klog/v2"
)

// LogTo keeps what the client of Kubernetes prints by itself, on stderr, to
// those who debug: each connection that is ended on purpose is some errors to
// it. The errors that matter are returned to the driver. It is for the whole
// process, before the first call.
func LogTo(log *slog.Logger) {
	if log.Enabled(context.Background(), slog.LevelDebug) {
		klog.SetSlogLogger(log)
		return
	}
	klog.SetLogger(klog.Logger{}) // discards
}
