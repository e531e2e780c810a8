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

// Labels of all objects of a task.
const (
	LabelRun      = "drover.run/run"
	LabelTask     = "drover.run/task" // the name, or what LabelValue makes of it
	LabelKey      = "drover.run/key"
	LabelExecutor = "drover.run/executor" // executor that created the object
	LabelSet      = "drover.run/set"      // of that executor
)

// Annotations of pods.
const (
	annotationTask  = "drover.run/task"
	annotationNonce = "drover.run/nonce" // prefix of the shim's lines in the container's log
	// annotationServices has the names of the services, separated by commas.
	annotationServices = "drover.run/services"
	// annotationStarter names the call of Start that created or last found the
	// pod. Another call must not remove the pod after a failure.
	annotationStarter = "drover.run/starter"
)

// Names within a pod. Templates refer to the containers.
const (
	mainContainer    = "task"
	shimContainer    = "drover-shim"
	serviceContainer = "service-" // and its number, from 0
	helperContainer  = "helper-"  // and its number, from 0: see helper.Name
	toolVolume       = "drover-bin"
	taskVolume       = "drover-task"
	secretsVolume    = "drover-secrets"
	workVolume       = "drover-work"            // the working directory, if there are helper containers
	scratchVolume    = "volume-"                // and its number, from 0
	secretGate       = "drover.run/pull-secret" //nolint:gosec // a name
)

// Paths in the task's container.
const (
	toolDir = "/.drover/bin"  // the shim
	taskDir = "/.drover/task" // the shim's directory
	// secretsDir is in memory, mounted if the task has secret files.
	secretsDir = "/.drover/secrets"
	shimFile   = "drover-shim"
	shimPath   = toolDir + "/" + shimFile
	// helperPath is the shim in the helper image.
	helperPath = "/bin/" + shimFile
)

// notInLabels matches characters that label values cannot contain.
var notInLabels = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Name returns the name of an object of a key: the task's pod, and any other
// object of which there is one for each key. It is a DNS label.
func Name(prefix string, key run.Key) string {
	name := fmt.Sprintf("%s-%s-%d-%d-%d", prefix, key.Run, key.Task, key.Attempt, key.Dispatch)
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(key.String()))
	return prefix + "-" + hex.EncodeToString(sum[:16])
}

// LabelValue returns text as a label value. If text is not a valid value, the
// result is a readable form of it with a hash, which is unique for each text.
func LabelValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	const digits, room = 12, validation.LabelValueMaxLength - 13
	sum := sha256.Sum256([]byte(text))
	readable := strings.Trim(notInLabels.ReplaceAllString(text, "-"), "._-")
	if len(readable) > room {
		readable = strings.TrimRight(readable[:room], "._-")
	}
	if readable == "" {
		return hex.EncodeToString(sum[:])[:digits]
	}
	return readable + "-" + hex.EncodeToString(sum[:])[:digits]
}

// Labels returns the labels of the objects that an executor creates for a key.
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
