package spec

import (
	"reflect"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// foreignWord returns a hint for a key that type t does not have: the key of
// Drover for a word of GitLab CI, GitHub Actions, Docker Compose, Dagu or
// Agola, or the place of a key that belongs elsewhere. It returns "" for other
// words.
func (d *decoder) foreignWord(t reflect.Type, key string) string {
	word := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
	if hint := foreignWords(t)[word]; hint != "" {
		return hint
	}
	has := func(t reflect.Type) bool {
		return slices.ContainsFunc(d.fieldsOf(t), func(f field) bool { return f.name == key })
	}
	spec, task, step := reflect.TypeFor[run.Spec](), reflect.TypeFor[run.TaskSpec](), reflect.TypeFor[run.Step]()
	switch {
	case !slices.Contains([]reflect.Type{spec, task, step}, t):
		return ""
	case has(task):
		return "it is a key of a task"
	case has(step):
		return "it is a key of a step"
	case has(spec):
		return "it is a key of the run"
	}
	return ""
}

// foreignWords returns the hints for the words that other systems use in place
// of keys of type t. The words are in lower case, without dashes and
// underscores. Quoted words in the hints are keys.
func foreignWords(t reflect.Type) map[string]string {
	switch t {
	case reflect.TypeFor[run.Spec]():
		return foreignInRun()
	case reflect.TypeFor[run.TaskSpec]():
		return foreignInTask()
	case reflect.TypeFor[run.Step]():
		return foreignInStep()
	case reflect.TypeFor[run.Input]():
		return words(map[string]string{
			"value":                     `use "default", or "input_values" of the run`,
			"enum choices values oneof": `use "options"`,
			"desc help":                 `use "description"`,
			"regex regexp":              `use "pattern"`,
			"optional":                  `use "required"`,
		})
	case reflect.TypeFor[run.ServiceSpec]():
		return words(map[string]string{
			"env variables vars": `use "environment"`,
			"alias hostname":     `use "aliases", a list`,
			"args":               `use "command"`,
			"ports expose":       "steps reach each port of the service on localhost: leave it out",
		})
	case reflect.TypeFor[run.TaskChangeGroup]():
		return words(map[string]string{
			"key group changegroup lock mutex": `use "name"`,
			"slots count weight permits":       `use "units"`,
		})
	case reflect.TypeFor[run.Depend]():
		return words(map[string]string{
			"job name needs step stage":                 `use "task"`,
			"if when status condition outcome outcomes": `use "on"`,
		})
	case reflect.TypeFor[run.Retry]():
		return words(map[string]string{
			"max limit attempts count maximumattempts retries": `use "max_attempts", which counts the first attempt`,
			"when retryon":                      `use "on"`,
			"delay interval intervalsec wait":   `use "backoff"`,
			"multiplier factor exponent":        `use "backoff_factor"`,
			"maxinterval maxdelay backofflimit": `use "backoff_max"`,
			"jitter":                            `use "backoff_jitter"`,
			"exitcode codes":                    `use "exit_codes"`,
		})
	case reflect.TypeFor[run.Resources]():
		return words(map[string]string{
			"cpus":            `use "cpu"`,
			"mem ram":         `use "memory"`,
			"limits requests": `set "cpu" and "memory" directly`,
		})
	case reflect.TypeFor[run.Volume]():
		return words(map[string]string{
			"target mountpath destination mount": `use "path"`,
			"source volume claimname":            `use "name", a persistent volume, or "host_path", a path of the host`,
			"type":                               `a volume has "tmpfs", "name" or "host_path"`,
			"bind host":                          `use "host_path"`,
			"ro mode":                            `use "read_only"`,
		})
	case reflect.TypeFor[run.SaveArtifacts]():
		return words(map[string]string{"expirein expire retentiondays expires": `use "retention", a duration such as 720h`})
	case reflect.TypeFor[run.RestoreCache]():
		return words(map[string]string{"key restorekeys fallbackkeys": `use "keys"`, "path paths": `use "to", a directory`})
	case reflect.TypeFor[run.RestoreWorkspace]():
		return words(map[string]string{"path at": `use "to"`})
	}
	return nil
}

const (
	hintSteps     = `use "steps" with "run"`
	hintVariables = `use "environment"`
	hintTimeout   = `use "timeout", a duration such as 30m`
	hintCaches    = `use steps with "restore_cache" and "save_cache"`
	hintOutputs   = "a step writes its outputs to $DROVER_OUTPUT"
)

func foreignInRun() map[string]string {
	return words(map[string]string{
		"jobs":                  `use "tasks"`,
		"stages":                `there are no stages: use "depends" of each task`,
		"on trigger triggers":   "a run file has no triggers: a client or a schedule submits the run",
		"schedule cron":         "a schedule is a file of its own: see drover schedules",
		"workflow rules if":     "a run file has no conditions: the client decides whether to submit it",
		"env variables vars":    hintVariables,
		"params parameters":     `use "inputs"`,
		"values arguments args": `use "input_values"`,
		"script run commands":   `use "tasks" with "steps"`,
		"command":               `use "tasks" with "steps"`,
		"beforescript":          `use a first step in the "steps" of each task`,
		"afterscript":           `use a last step with "when": always in the "steps" of each task`,
		"needs dependson":       `use "depends" of each task`,
		"runson tags":           `use "pool" or "requires" of each task`,
		"container":             `use "image" of each task`,
		"strategy parallel":     `use "matrix" of a task`,
		"concurrency":           `use "changegroups"`,
		"resourcegroup queue":   `use "changegroups"`,
		"maxactiveruns":         `use "changegroups"`,
		"default defaults":      "YAML anchors and merge keys share settings between tasks",
		"include extends":       "YAML anchors and merge keys share settings between tasks",
		"cache":                 hintCaches,
		"artifacts":             `use a step with "save_artifacts"`,
		"description labels":    `use "annotations"`,
		"version":               "the format has no version: leave it out",
		"handleron":             `use a task whose "depends" accepts failure with "on", or one with "finally": true`,
		"finally onexit":        `use "finally": true of a task`,
		"timeoutminutes":        hintTimeout,
		"timeoutsec":            hintTimeout,
		"outputs":               hintOutputs,
		"workingdirectory":      `use "working_dir" of each task`,
		"continueonerror":       `use "allow_failure" of a task`,
		"ignorefailure":         `use "allow_failure" of a task`,
		"uses with permissions": `there are no actions: use "tasks" with "steps"`,
	})
}

func foreignInTask() map[string]string {
	return words(map[string]string{
		"needs dependson dependencies":    `use "depends"`,
		"env variables vars":              hintVariables,
		"script run command commands cmd": hintSteps,
		"beforescript exec":               hintSteps,
		"afterscript":                     `use a last step with "when": always`,
		"rules only except condition":     `use "if", an expression, or "on" of its "depends"; "skip" leaves the task out`,
		"when preconditions precondition": `use "if", an expression, or "on" of its "depends"; "skip" leaves the task out`,
		"runson tags agent agents runner": `use "pool" or "requires"`,
		"nodeselector workerselector":     `use "pool" or "requires"`,
		"container":                       `use "image"`,
		"strategy parallel":               `use "matrix"`,
		"parallelism":                     `use "max_parallel", or "matrix" for copies of the task`,
		"withitems withparam loop items":  `use "foreach"`,
		"stage":                           `there are no stages: use "depends"`,
		"artifacts":                       `use a step with "save_artifacts", or with "save_workspace" for later tasks`,
		"cache":                           hintCaches,
		"timeoutminutes timeoutsec":       hintTimeout,
		"timeoutinminutes":                hintTimeout,
		"continueonerror":                 `use "allow_failure"`,
		"ignorefailure":                   `it is called "allow_failure" now, and such a failure counts as a success for dependents too`,
		"continueon":                      `use "allow_failure"`,
		"uses with":                       "there are no actions: " + hintSteps,
		"retries retrypolicy":             `use "retry"`,
		"retrystrategy":                   `use "retry"`,
		"dir cwd workdir":                 `use "working_dir"`,
		"workingdirectory":                `use "working_dir"`,
		"output outputs":                  hintOutputs,
		"name id":                         `the key below "tasks" is the name`,
		"manual approvers":                `use "approval"`,
		"cpu memory mem limits":           `use "resources"`,
		"concurrency resourcegroup":       `use "changegroups"`,
	})
}

func foreignInStep() map[string]string {
	return words(map[string]string{
		"script command commands cmd exec": `use "run"`,
		"bash sh pwsh":                     `use "run"`,
		"env variables vars":               hintVariables,
		"condition rules preconditions":    `use "if", an expression, or "when"`,
		"uses with plugin plugins":         `there are no actions: use "run"`,
		"clone":                            `use "checkout"`,
		"dir cwd workdir workingdirectory": `use "working_dir"`,
		"timeoutminutes timeoutsec":        hintTimeout,
		"timeoutinminutes":                 hintTimeout,
		"retries attempts retrypolicy":     `use "retry" with "max_attempts"`,
		"continueonerror allowfailure":     `a step that fails fails its task: end the script of "run" with || true`,
		"id label":                         `use "name"`,
		"needs dependson depends":          `steps run in order; "depends" is a key of a task`,
		"artifacts uploadartifact":         `use "save_artifacts"`,
		"cache":                            `use "restore_cache" and "save_cache"`,
		"savetoworkspace":                  `use "save_workspace"`,
		"persisttoworkspace":               `use "save_workspace"`,
		"attachworkspace":                  `use "restore_workspace"`,
		"output outputs":                   hintOutputs,
	})
}

// words returns the hints by word, from the hints by words with spaces between
// them.
func words(hints map[string]string) map[string]string {
	out := make(map[string]string)
	for all, hint := range hints {
		for word := range strings.FieldsSeq(all) {
			out[word] = hint
		}
	}
	return out
}
