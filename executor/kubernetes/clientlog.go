package kubernetes

import (
	"context"
	"log/slog"

	"k8s.io/klog/v2"
)

// LogTo sends the log messages of the Kubernetes client to log at debug level,
// and discards them otherwise. The client logs errors for each connection that
// is closed on purpose; the errors that matter are returned to the driver.
// LogTo affects the whole process and must be called before the first request.
func LogTo(log *slog.Logger) {
	if log.Enabled(context.Background(), slog.LevelDebug) {
		klog.SetSlogLogger(log)
		return
	}
	klog.SetLogger(klog.Logger{}) // discards
}
