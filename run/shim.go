package run

// ShimOrder is what the shim gets, once and whole, before any step runs: how
// to run the steps of one task inside its environment.
type ShimOrder struct {
	Version    int        `json:"v"` // see OrderVersion
	FirstFrame int64      `json:"first_frame"`
	Definition Definition `json:"definition"`
	// User is the user of the steps where the definition names none (the
	// image's own); "" means the shim's user.
	User string `json:"user,omitempty"`
	// WorkingDir is used where the definition names none.
	WorkingDir string `json:"working_dir,omitempty"`
	// BaseEnvironment lies below the definition's environment: what the
	// image, or the host driver, gives.
	BaseEnvironment map[string]string `json:"base_environment,omitempty"`
	// SecretsDir is a directory in memory, of this task alone, for the secrets
	// that are files; "" where there are none.
	SecretsDir string `json:"secrets_dir,omitempty"`
}

// Versions of orders, by what came with each.
const (
	orderScripts     = 1
	orderArchives    = 2
	orderSecretFiles = 3

	// NewestOrder is the newest version of an order that this build knows.
	NewestOrder = orderSecretFiles
)

// OrderVersion returns the version of the order of a task: the oldest that an
// executor and its shim must know to run it as it is meant. It is 1, 2 where
// steps move archives, and 3 where secrets are files.
func OrderVersion(d *Definition) int {
	if len(d.SecretFiles) > 0 {
		return orderSecretFiles
	}
	for i := range d.Steps {
		if d.Steps[i].ArchiveType() != "" {
			return orderArchives
		}
	}
	return orderScripts
}

// CheckOrder returns why an executor that knows orders up to a version cannot
// run a task: one that is not asked would pass over what it does not know. 0
// is an executor that does not tell: it is older than all but scripts. Errors:
// conflict.
func CheckOrder(d *Definition, knows int) error {
	wanted, what := OrderVersion(d), "steps that move archives"
	if wanted <= max(knows, orderScripts) {
		return nil
	}
	if wanted == orderSecretFiles {
		what = "secrets as files"
	}
	return Errorf(CodeConflict, "the task has %s, which the executor is too old to know", what)
}
