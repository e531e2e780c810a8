package shim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/internal/durable"
)

// StopFile is the file in the shim's directory with the request to stop the task.
const StopFile = "stop"

// StopRequest is the content of the stop file.
type StopRequest struct {
	Grace time.Duration `json:"grace"`
	// Abort means that no cleanup step begins, and that a running one is stopped as
	// well. An older shim, which never cleans up, ignores it.
	Abort bool `json:"abort,omitempty"`
}

// WriteStop writes a stop request to the directory. The shim reads it on a signal,
// and before the first step.
func WriteStop(dir string, request StopRequest) error {
	text, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode the stop request: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, StopFile), text); err != nil {
		return fmt.Errorf("write the stop request: %w", err)
	}
	return nil
}

// readStop returns the stop request, if there is one. A malformed one is a stop
// request too.
func readStop(dir string, grace time.Duration) (request StopRequest, ok bool) {
	text, err := os.ReadFile(filepath.Join(dir, StopFile))
	if err != nil {
		return request, false
	}
	if err := json.Unmarshal(text, &request); err != nil {
		request.Grace = grace
	}
	return request, true
}
