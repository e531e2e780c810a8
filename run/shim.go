package run

// ShimSpec is the specification that the shim gets, once and in full, before
// any step runs: how to run the steps of one task inside its environment.
type ShimSpec struct {
	Version    int        `json:"v"` // see RequiredSpecVersion
	FirstFrame int64      `json:"first_frame"`
	Definition Definition `json:"definition"`
	// User is the user of the steps if the definition names none (the image's
	// own); "" means the shim's user.
	User string `json:"user,omitempty"`
	// WorkingDir is used if the definition names none.
	WorkingDir string `json:"working_dir,omitempty"`
	// BaseEnvironment has the variables of the image or of the host driver. The
	// definition's environment overrides them.
	BaseEnvironment map[string]string `json:"base_environment,omitempty"`
	// SecretsDir is a directory in memory, used by this task only, for the
	// secrets that are files; "" if there are none.
	SecretsDir string `json:"secrets_dir,omitempty"`
}

// Versions of the specification, by the feature that each added.
const (
	specVersionScripts     = 1
	specVersionArchives    = 2
	specVersionSecretFiles = 3

	// NewestSpecVersion is the newest version of the specification that this build
	// supports.
	NewestSpecVersion = specVersionSecretFiles
)

// RequiredSpecVersion returns the version of the specification that a task needs: the
// oldest version that an executor and its shim must support to run the task
// correctly. It is 1, 2 if steps transfer archives, and 3 if secrets are files.
func RequiredSpecVersion(d *Definition) int {
	if len(d.SecretFiles) > 0 {
		return specVersionSecretFiles
	}
	for i := range d.Steps {
		if d.Steps[i].ArchiveType() != "" {
			return specVersionArchives
		}
	}
	return specVersionScripts
}

// CheckSpecVersion returns an error if an executor that supports specifications up to
// a version cannot run a task. Without this check an old executor would ignore
// the features that it does not know. Version 0 is an executor that does not
// report its version, and counts as 1. Errors: conflict.
func CheckSpecVersion(d *Definition, specVersion int) error {
	required, subject := RequiredSpecVersion(d), "steps that transfer archives"
	if required <= max(specVersion, specVersionScripts) {
		return nil
	}
	if required == specVersionSecretFiles {
		subject = "secrets as files"
	}
	return Errorf(CodeConflict, "the task has %s, which this version of the executor does not support", subject)
}
