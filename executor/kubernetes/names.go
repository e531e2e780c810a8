package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-run/drover/run"
)

// Labels of all that belongs to a task.
const (
	LabelRun      = "drover.run/run"
	LabelTask     = "drover.run/task" // as far as a label can hold its name
	LabelKey      = "drover.run/key"
	LabelExecutor = "drover.run/executor" // that made it
	LabelSet      = "drover.run/set"      // of that executor
)

// Annotations of pods.
const (
	annotationTask  = "drover.run/task"
	annotationNonce = "drover.run/nonce" // marks the shim's lines in the container's log
	// annotationStarter names the call of Start that made the pod or found it
	// last: no other may remove it because it failed.
	annotationStarter = "drover.run/starter"
)

// Names within a pod. Templates refer to the containers.
const (
	mainContainer    = "task"
	helperContainer  = "drover-shim"
	serviceContainer = "service-" // and its number, from 0
	toolVolume       = "drover-bin"
	taskVolume       = "drover-task"
	secretsVolume    = "drover-secrets"
	scratchVolume    = "volume-"                // and its number, from 0
	secretGate       = "drover.run/pull-secret" //nolint:gosec // a name
)

// Where things lie in the task's container.
const (
	toolDir = "/.drover/bin"  // the shim
	taskDir = "/.drover/task" // the shim's directory
	// secretsDir is in memory, where the task has secrets that are files.
	secretsDir = "/.drover/secrets"
	shimFile   = "drover-shim"
	shimPath   = toolDir + "/" + shimFile
	// helperPath is the shim in the helper image.
	helperPath = "/bin/" + shimFile
)

// notInLabels is what the values of labels can not have.
var notInLabels = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Name returns the name of what belongs to a key: the task's pod, and anything
// else of which there is one for each key. It is a DNS label.
func Name(prefix string, key run.Key) string {
	name := fmt.Sprintf("%s-%s-%d-%d-%d", prefix, key.Run, key.Task, key.Attempt, key.Dispatch)
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(key.String()))
	return prefix + "-" + hex.EncodeToString(sum[:16])
}

// LabelValue returns text as the value of a label: itself where it can be one,
// else something like it that no other text becomes.
func LabelValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	const digits, room = 12, validation.LabelValueMaxLength - 13
	sum := sha256.Sum256([]byte(text))
	like := strings.Trim(notInLabels.ReplaceAllString(text, "-"), "._-")
	if len(like) > room {
		like = strings.TrimRight(like[:room], "._-")
	}
	if like == "" {
		return hex.EncodeToString(sum[:])[:digits]
	}
	return like + "-" + hex.EncodeToString(sum[:])[:digits]
}

// Labels returns the labels of what an executor makes for a key.
func Labels(key run.Key, executorID, set string) map[string]string {
	labels := map[string]string{
		LabelRun:      string(key.Run),
		LabelKey:      LabelValue(key.String()),
		LabelExecutor: LabelValue(executorID),
	}
	if set != "" {
		labels[LabelSet] = LabelValue(set)
	}
	return labels
}
