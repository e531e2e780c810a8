package spec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

var compileSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.RunSchema()))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler() // a name without a scheme would be a file in this directory, whose path may have spaces
	if err := c.AddResource("mem:///run.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("mem:///run.json")
})

// validateJSON validates a document with the schema, and with the reader and
// the checks of the gateway.
func validateJSON(t testing.TB, data []byte) (bySchema, byReader, byGateway error) {
	t.Helper()
	schema, err := compileSchema()
	require.NoError(t, err)
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	var token string
	parser := spec.Parser{Extra: map[string]*string{"changegroup_token": &token}}
	_, byReader = parser.Read(data, spec.FormatJSON)
	_, byGateway = parser.Validate(data, spec.FormatJSON)
	return schema.Validate(instance), byReader, byGateway
}

// schemaRule is a rule that the schema cannot state, with its faults, and with
// examples that have such a fault only and that the schema accepts.
type schemaRule struct {
	text     string // as on the page of the run file
	faults   []ruleFault
	examples []string // lines of a task, or lines of the run if they begin at the margin
}

type ruleFault struct {
	code         run.Code
	path, detail string // regular expressions
	// wide: only in a document with characters of several bytes.
	wide bool
}

// schemaRules lists the rules that the schema cannot state.
func schemaRules() []schemaRule {
	const reference = `an output is named as|is not the name of an output|has a string that cannot be read`
	long := strings.Repeat("ä", 60)
	return []schemaRule{
		{
			"A dependency names another task of the file, each once, and no task depends on itself, directly or through others.",
			[]ruleFault{{code: run.FaultUnknownDependency, path: `\.depends\[\d+\]\.task$`}, {code: run.FaultDuplicate, path: `\.depends\[\d+\]\.task$`}, {code: run.FaultCycle, path: `\.depends\[\d+\]\.task$`}},
			[]string{"depends: [b]", "depends: [a]", "depends: [z, {task: z}]"},
		},
		{
			"A task with `finally` has no `approval`, no `changegroups` and no `foreach`. It and the tasks without it do not depend on each other, and a file has at least one task without it.",
			[]ruleFault{
				{code: run.FaultContradiction, path: `\.(approval|changegroups|foreach|depends\[\d+\](\.task)?)$`, detail: "finally"},
				{code: run.FaultRequired, path: `^tasks$`, detail: "finally"},
			},
			[]string{
				"finally: true\n    approval: true", "finally: true\n    changegroups: [g]", "finally: true\n    foreach: '{{ output \"z\" \"k\" }}'", "finally: true\n    depends: [z]",
				"tasks: {a: {finally: true, steps: [{run: x}]}}\n",
			},
		},
		{
			"The change groups of a task are not those of the run or of a path, each is named once, and the tasks of a file name at most 64.",
			[]ruleFault{
				{code: run.FaultContradiction, path: `\.changegroups\[\d+\]\.name$`},
				{code: run.FaultBadValue, path: `\.changegroups\[\d+\]\.name$`},
				{code: run.FaultDuplicate, path: `\.changegroups\[\d+\]\.name$`},
				{code: run.FaultOverLimit, path: `^tasks$`, detail: "change groups"},
			},
			[]string{
				"changegroups: ['group:/a']", "changegroups: [g, {name: g, units: 2}]", "changegroups: [g]\ntasks: {a: {changegroups: [g], steps: [{run: x}]}}\n",
			},
		},
		{
			"The limits on tasks after expansion and on the dependencies of all tasks.",
			[]ruleFault{{code: run.FaultOverLimit, path: `^tasks$`}},
			[]string{"matrix: {A: [" + strings.Repeat("1,", 10_000) + "1]}"},
		},
		{
			"The name of a task has at most 250 bytes with the suffix of its `matrix`.",
			[]ruleFault{{code: run.FaultOverLimit, path: `\.matrix$`}},
			[]string{"matrix: {A: [" + strings.Repeat("x", 250) + "]}"},
		},
		{
			"The items of `exclude` name values of axes and leave a combination, and those of `include` add at most 20 keys and no second task of a name.",
			[]ruleFault{
				{code: run.FaultBadValue, path: `\.matrix\.exclude\[\d+\]`},
				{code: run.FaultContradiction, path: `\.matrix\.exclude$`},
				{code: run.FaultDuplicate, path: `\.matrix\.include\[\d+\]$`},
				{code: run.FaultOverLimit, path: `\.matrix\.include`, detail: "keys to the axes|the name would have"},
			},
			[]string{
				"matrix: {A: [1], exclude: [{B: 1}]}", "matrix: {A: [1], exclude: [{A: 2}]}", "matrix: {A: [1], exclude: [{A: 1}]}",
				"matrix: {A: [1], include: [{B: 1, A: 2}, {A: 2, B: 1}]}", "matrix: {include: [{A: " + strings.Repeat("x", 250) + "}]}",
			},
		},
		{
			"References to outputs are well-formed, are in a key that expands them, and name an output of a task on which this task depends.",
			[]ruleFault{
				{code: run.CodeNotSupported, detail: "outputs are allowed|before any task has run"},
				{code: run.FaultBadFormat, path: `\.(environment|foreach)\b`, detail: reference},
				{code: run.FaultBadValue, path: `\.(environment|foreach)\b`, detail: "is an expansion"},
				{code: run.FaultUnknownDependency, path: `\.(environment|foreach)\b`},
			},
			[]string{`environment: {A: '{{ output "z" "k" }}'}`, "environment: {A: '{{ output }}'}", "environment: {A: '{{ output }}'}\n", `foreach: '{{ output "b" "k" }}'`},
		},
		{
			"A condition (`if`) is an expression of the right types. It reads tasks on which this task depends, variables that the file sets, axes of the `matrix`, and no secret.",
			[]ruleFault{{code: run.FaultBadFormat, path: `\.if$`}, {code: run.FaultBadValue, path: `\.if$`}, {code: run.FaultUnknownDependency, path: `\.if$`}},
			[]string{"if: 1 + 1", "if: tasks.z.status == 'success'", "if: env.NONE == ''", "steps: [{run: a, if: success()}]"},
		},
		{
			"A task with `max_parallel` has a `matrix` or a `foreach`.",
			[]ruleFault{{code: run.FaultContradiction, path: `\.max_parallel$`}},
			[]string{"max_parallel: 2"},
		},
		{
			"A `foreach` contains a reference to an output.",
			[]ruleFault{{code: run.FaultBadValue, path: `\.foreach$`, detail: "foreach needs an output"}},
			[]string{"foreach: a"},
		},
		{
			"The default, the options, the pattern and `required` of an input agree with its type and with each other.",
			[]ruleFault{
				{code: run.FaultBadValue, path: `^inputs\.\w+\.(default|options)\b`},
				{code: run.FaultWrongType, path: `^inputs\.\w+\.default$`, detail: "is not a number|is neither true nor false"},
				{code: run.FaultContradiction, path: `^inputs\.\w+\.(required|options|pattern)$`},
				{code: run.FaultRequired, path: `^inputs\b`, detail: "has a default or is required|has options"},
				{code: run.FaultBadFormat, path: `^inputs\.\w+\.(pattern|default)$`, detail: "is not a regular expression|does not match"},
				{code: run.FaultOverLimit, path: `^inputs\.\w+\.(pattern|default)$`, detail: "repeats too much|with a pattern"},
				{code: run.FaultDuplicate, path: `^inputs\.\w+\.options\[\d+\]$`},
			},
			[]string{
				"inputs: {a: {default: '{{ x }}'}}\n", "inputs: {a: {type: number, default: b}}\n", "inputs: {a: {default: b, required: true}}\n",
				"inputs: {a: {type: number}}\n", "inputs: {a: {type: choice}}\n", "inputs: {a: {pattern: '('}}\n", "inputs: {a: {pattern: 'b{1000}', required: true}}\n",
				"inputs: {a: {type: choice, options: [b, b], required: true}}\n", "inputs: {a: {options: [b]}}\n",
			},
		},
		{
			"`input_values` names inputs of the file, has values that they allow, and has one for each required input.",
			[]ruleFault{
				{code: run.FaultUnknownInput, path: `^input_values\b`},
				{code: run.FaultRequired, path: `^input_values\b`},
				{code: run.FaultBadValue, path: `^input_values\b`},
				{code: run.FaultWrongType, path: `^input_values\b`, detail: "is not a number|is neither true nor false"},
				{code: run.FaultBadFormat, path: `^input_values\b`, detail: "does not match"},
				{code: run.FaultOverLimit, path: `^input_values\b`, detail: "with a pattern"},
			},
			[]string{
				"input_values: {a: b}\n", "inputs: {a: {required: true}}\n", "inputs: {a: {type: number, default: 1}}\ninput_values: {a: b}\n",
				"inputs: {a: {pattern: b*}}\ninput_values: {a: c}\n", "inputs: {a: {}}\ninput_values: {a: '{{ b }}'}\n",
			},
		},
		{
			"References to inputs are well-formed and name an input of the file, and the file keeps all rules with the references replaced.",
			[]ruleFault{
				{code: run.FaultUnknownInput},
				{code: run.FaultBadFormat, detail: "^an input is named as|has a string that cannot be read"},
				{code: run.FaultBadFormat, detail: "^with its inputs replaced"},
				{code: run.FaultBadValue, detail: "^with its inputs replaced"},
				{code: run.FaultRequired, detail: "^with its inputs replaced"},
				{code: run.FaultOverLimit, detail: "with its inputs replaced"},
			},
			[]string{
				`image: '{{ input "a" }}'`, "environment: {A: '{{ input }}'}", "inputs: {a: {default: ' '}}\nenvironment: {A: '{{ input \"b\" }}'}\n",
			},
		},
		{
			"`secret_files`, `password_secret` and the `secrets` of services name secrets of the file, and no secret is both in `secrets` and in `secrets_from`.",
			[]ruleFault{
				{code: run.FaultUnknownSecret, path: `^secret_files\[\d+\]$`},
				{code: run.FaultUnknownSecret, path: `\.password_secret$`},
				{code: run.FaultUnknownSecret, path: `\.services\[\d+\]\.secrets\b`},
				{code: run.FaultDuplicate, path: `^secrets_from\b`},
			},
			[]string{"secret_files: [A]\n", "registries: {h: {username: u, password_secret: p}}\n", "services: [{image: i, secrets: {A: b}}]", "secrets: {A: b}\nsecrets_from: {A: {provider: p, name: n}}\n"},
		},
		{
			"A secret is not `[redacted]`, which stands for a value that is hidden.",
			[]ruleFault{{code: run.FaultBadValue, path: `^secrets\.`, detail: "placeholder"}},
			[]string{"secrets: {T: '[redacted]'}\n"},
		},
		{
			"`from` of an approval names at least as many subjects as `approvers` says.",
			[]ruleFault{{code: run.FaultContradiction, path: `\.approval\.from$`}},
			[]string{"approval: {approvers: 2, from: [ann]}"},
		},
		{
			"The names of services with their aliases, the paths of volumes, the names of artifacts and the values of an axis are unique.",
			[]ruleFault{
				{code: run.FaultDuplicate, path: `\.services\[\d+\]\.(name|aliases\[\d+\])$`},
				{code: run.FaultDuplicate, path: `\.volumes\[\d+\]\.path$`},
				{code: run.FaultDuplicate, path: `\.save_artifacts\.name$`},
				{code: run.FaultDuplicate, path: `\.matrix\.\w+\[\d+\]$`},
			},
			[]string{
				"services: [{name: s, image: i}, {name: s, image: j}]", "services: [{image: a/b}, {name: c, image: j, aliases: [a-b]}]", "volumes: [{path: /a, tmpfs: {}}, {path: /a/, tmpfs: {}}]",
				"steps: [{save_artifacts: {name: n}}, {save_artifacts: {name: n}}]", `matrix: {A: [1, "1"]}`,
			},
		},
		{
			"The addresses of `extra_hosts` are IP addresses, and no name is that of a service.",
			[]ruleFault{
				{code: run.FaultBadFormat, path: `\.extra_hosts\b`, detail: "IP address"},
				{code: run.FaultDuplicate, path: `\.extra_hosts\b`},
			},
			[]string{"extra_hosts: {a: 1.2.3}", "tasks: {a: {steps: [{run: x}], services: [{image: db}], extra_hosts: {db: 1.2.3.4}}}\n"},
		},
		{
			"A device is a path alone, without a target or permissions after a colon.",
			[]ruleFault{{code: run.FaultBadFormat, path: `\.devices\[\d+\]$`, detail: "alone"}},
			[]string{"devices: ['/dev/sda:/dev/xvda']", "devices: ['/dev/kvm:rwm']"},
		},
		{
			"With `service_network: own`, no service has the name or the alias `localhost`.",
			[]ruleFault{{code: run.FaultContradiction, path: `\.service_network$`, detail: "has the name localhost"}},
			[]string{
				"service_network: own\n    services: [{name: localhost, image: i}]", "service_network: own\n    services: [{image: localhost}]",
				"service_network: own\n    services: [{image: i, aliases: [localhost]}]",
			},
		},
		{
			"The image of a service without `name` gives a name of at most 100 bytes, and no variable of a service is both in `environment` and in `secrets`.",
			[]ruleFault{
				{code: run.FaultRequired, path: `\.services\[\d+\]\.name$`},
				{code: run.FaultContradiction, path: `\.services\[\d+\]\.secrets\b`},
			},
			[]string{"services: [{image: " + strings.Repeat("a/", 60) + "b}]", "secrets: {S: x}\ntasks: {a: {steps: [{run: x}], services: [{image: i, environment: {A: b}, secrets: {A: S}}]}}\n"},
		},
		{
			"The `credentials` of a checkout name a secret of the file, and are for http and https. Its `repository` is an address without credentials.",
			[]ruleFault{
				{code: run.FaultUnknownSecret, path: `\.checkout\.credentials$`},
				{code: run.FaultContradiction, path: `\.checkout\.credentials$`},
				{code: run.FaultBadValue, path: `\.checkout\.(repository|path)$`},
				{code: run.FaultBadFormat, path: `\.checkout\.(repository|ref|sha)$`},
			},
			[]string{
				"steps: [{checkout: {repository: 'https://h/r', credentials: A}}]", "secrets: {A: bcd}\ntasks: {a: {steps: [{checkout: {repository: 'git@h:r', credentials: A}}]}}\n",
				"steps: [{checkout: {repository: 'https://u:p@h/r'}}]", "steps: [{checkout: {repository: 'ftp://h/r'}}]",
			},
		},
		{
			"Only steps with `run` or `checkout` have an `image`, at most 8 different ones in a task, whose `working_dir` is then an absolute path below `/`, and so it is if services share it.",
			[]ruleFault{
				{code: run.FaultContradiction, path: `\.steps\[\d+\]\.image$`},
				{code: run.FaultOverLimit, path: `\.steps\[\d+\]\.image$`},
				{code: run.FaultBadFormat, path: `\.working_dir$`, detail: "other containers of the task share it"},
			},
			[]string{
				"steps: [{image: i, save_workspace: {}}]", "working_dir: a\n    steps: [{run: a, image: i}]",
				"steps: [{run: a, image: a}, {run: a, image: b}, {run: a, image: c}, {run: a, image: d}, {run: a, image: e}, {run: a, image: f}, {run: a, image: g}, {run: a, image: h}, {run: a, image: i}]",
			},
		},
		{
			"No checkout is at, inside of, or around a path of the host that is mounted.",
			[]ruleFault{{code: run.FaultContradiction, path: `\.checkout$`, detail: "path of the host"}},
			[]string{"working_dir: /src/a\n    volumes: [{path: /src, host_path: /srv/src}]\n    steps: [{checkout: {repository: 'https://git.example.com/a/b.git'}}]"},
		},
		{
			"The key of a cache is a template that can be read.",
			[]ruleFault{{code: run.FaultBadFormat, path: `\.(save_cache\.key|restore_cache\.keys\[\d+\])$`}},
			[]string{"steps: [{save_cache: {key: '{{ sha1 }}'}}]"},
		},
		{
			"Globs are well-formed, and agree with `root`.",
			[]ruleFault{
				{code: run.FaultBadFormat, path: `\.paths\[\d+\]$`, detail: "is not a glob"},
				{code: run.FaultBadValue, path: `\.paths\[\d+\]$`, detail: "below the root"},
				{code: run.FaultContradiction, path: `\.paths\[\d+\]$`},
				{code: run.FaultRequired, path: `\.root$`},
			},
			[]string{
				"steps: [{save_workspace: {paths: ['{a']}}]", "steps: [{save_workspace: {paths: [/a], root: /b}}]",
				"steps: [{save_workspace: {paths: [/a], root: b}}]", "steps: [{save_workspace: {paths: [/a, b]}}]",
			},
		},
		{
			"The `scope` of a cache is the group of the run, or one above it.",
			[]ruleFault{{code: run.FaultBadValue, path: `\.scope$`}},
			[]string{"steps: [{save_cache: {key: k, scope: /b/c}}]"},
		},
		{
			"Elements `..` inside of a path: they must not lead out of the workspace (`to` of `save_workspace`), or to `/` (`path` of a volume).",
			[]ruleFault{{code: run.FaultBadValue, path: `\.save_workspace\.to$`}, {code: run.FaultBadFormat, path: `\.volumes\[\d+\]\.path$`, detail: "not an absolute path below"}},
			[]string{"steps: [{save_workspace: {to: a/../..}}]", "volumes: [{path: /a/.., tmpfs: {}}]"},
		},
		{
			"No persistent volume and no path of the host is inside of another volume or of a working directory that is a volume, nor has one inside, and none is at or below `/.drover`, `/proc`, `/sys` or `/dev`, or in the place of a directory of the system such as `/etc`, nor below it in a task with `gpus`. A persistent volume that is such a working directory is not `read_only`, and no path of the host is one. A task has at most 50 of both together. Beside one, the path of each volume has at most 512 bytes and 16 elements.",
			[]ruleFault{
				{code: run.FaultContradiction, path: `\.(volumes\[\d+\]\.path|working_dir)$`, detail: "inside of the (persistent volume|path of the host|volume) at"},
				{code: run.FaultBadValue, path: `\.volumes\[\d+\]\.path$`, detail: "belongs to the container"},
				{code: run.FaultContradiction, path: `\.volumes\[\d+\]\.read_only$`, detail: "share this volume"},
				{code: run.FaultContradiction, path: `\.volumes\[\d+\]\.host_path$`, detail: "share the working directory"},
				{code: run.FaultOverLimit, path: `\.volumes$`, detail: "persistent volumes and paths of the host are mounted"},
				{code: run.FaultOverLimit, path: `\.(volumes\[\d+\]\.path|working_dir)$`, detail: "elements; the limits are"},
			},
			[]string{
				"volumes: [{path: /a, name: a}, {path: /a/b, tmpfs: {}}]", "volumes: [{path: /dev/a, name: a}]", "volumes: [{path: /etc, name: a}]",
				"resources: {gpus: 1}\n    volumes: [{path: /usr/local/a, name: a}]", "volumes: [{path: /a, name: a}, {path: " + strings.Repeat("/b", 17) + ", tmpfs: {}}]",
				"volumes: [{path: /a, host_path: /srv}, {path: /a/b, tmpfs: {}}]", "volumes: [{path: /workspace, host_path: /srv}]\n    services: [{image: x, share_working_dir: true}]",
				"volumes: [{path: /workspace, name: a, read_only: true}]\n    services: [{image: x, share_working_dir: true}]",
			},
		},
		{
			"In a `retry`, `exit_codes` need `failed` in `on`, and `backoff_factor`, `backoff_max` and `backoff_jitter` need a `backoff`. Only steps with `run` are retried.",
			[]ruleFault{{code: run.FaultContradiction, path: `\.retry(\.(exit_codes|backoff_\w+))?$`}},
			[]string{"retry: {on: [oom], exit_codes: [1]}", "retry: {backoff_factor: 2}", "steps: [{save_workspace: {}, retry: {max_attempts: 2}}]"},
		},
		{
			"The greatest size, amount of CPU and duration.",
			[]ruleFault{
				{code: run.FaultBadFormat, path: `\.(cpu|memory|size)$`, detail: "is not an amount"},
				{code: run.FaultBadFormat, path: `(^|\.)(timeout|backoff|backoff_max|retention)$`, detail: "is not a duration"},
			},
			[]string{"resources: {memory: 100E}", "resources: {cpu: '1e99'}", "timeout: 3000000h"},
		},
		{
			"Lengths count bytes, those of a variable with its name. The schema counts characters, and those of the value.",
			[]ruleFault{
				{code: run.FaultOverLimit, detail: `\d+ bytes`, wide: true},
				{code: run.FaultBadFormat, path: `^changegroups\[`, detail: "100 bytes", wide: true},
				{code: run.FaultOverLimit, detail: "the variable has"},
			},
			[]string{"changegroups: [" + long + "]\n", "steps: [{name: " + long + ", run: a}]", "environment: {ABCD: " + strings.Repeat("x", 131_069) + "}"},
		},
		{
			"How a number is written: `3.0` is not an integer, and a quantity has at most 18 digits on either side of the point.",
			[]ruleFault{{code: run.FaultWrongType, path: `(priority|pids|max_attempts|approvers|exit_codes\[\d+\])$`, detail: "an unquoted number where a whole number"}},
			[]string{"priority: 3.0\n", "resources: {pids: 3.0}", "resources: {cpu: 0.1234567890123456789}"},
		},
		{
			"A key is not given twice, and the file keeps the bounds of its size.",
			nil,
			[]string{"priority: 3\npriority: 4\n"},
		},
	}
}

// ruleExample returns a file with lines of a task or of the run.
func ruleExample(lines string) string {
	if strings.HasSuffix(lines, "\n") {
		return minimal + lines
	}
	key, _, _ := strings.Cut(lines, ":")
	task := "  z: {steps: [{run: z}]}\n  a:\n    " + lines + "\n"
	if key != "steps" {
		task += "    steps: [{run: a}]\n"
	}
	return "name: n\ngroup: /a/b\ntasks:\n" + task
}

// ruleFaults returns the patterns of the faults of all rules, by code.
var ruleFaults = sync.OnceValue(func() map[run.Code][]func(f run.Fault, wide bool) bool {
	out := make(map[run.Code][]func(run.Fault, bool) bool)
	for _, r := range schemaRules() {
		for _, rf := range r.faults {
			path, detail := regexp.MustCompile(rf.path), regexp.MustCompile(rf.detail)
			out[rf.code] = append(out[rf.code], func(f run.Fault, wide bool) bool {
				return path.MatchString(f.Path) && detail.MatchString(f.Detail) && (wide || !rf.wide)
			})
		}
	}
	return out
})

// beyondSchema reports whether a fault of a document is one of a rule that the
// schema cannot state.
func beyondSchema(f run.Fault, data []byte) bool {
	wide := bytes.ContainsFunc(data, func(r rune) bool { return r > unicode.MaxASCII })
	return slices.ContainsFunc(ruleFaults()[f.Code], func(matches func(run.Fault, bool) bool) bool { return matches(f, wide) })
}

// disagreement returns how the schema and the parser disagree on a document, ""
// if they agree: what the schema accepts has no fault, except those of the
// rules that it cannot state; what it rejects has a fault.
func disagreement(t testing.TB, data []byte) (accepted bool, problem string) {
	t.Helper()
	bySchema, byReader, byGateway := validateJSON(t, data)
	if bySchema != nil {
		if byGateway == nil {
			return false, fmt.Sprintf("the schema rejects a valid document: %v\n%s", bySchema, data)
		}
		return false, ""
	}
	for _, f := range append(faults(byReader), faults(byGateway)...) {
		if !beyondSchema(f, data) {
			return true, fmt.Sprintf("the schema accepts a document with the fault %+v\n%s", f, data)
		}
	}
	return true, ""
}

// everyKey returns a valid document that has every key.
func everyKey(t testing.TB) map[string]any {
	t.Helper()
	var doc map[string]any
	require.NoError(t, yaml.Unmarshal(full(t, "every-key.yaml"), &doc))
	return doc
}

func marshal(t testing.TB, doc any) []byte {
	t.Helper()
	data, err := json.Marshal(doc)
	require.NoError(t, err)
	return data
}

// slot is a value in a document.
type slot struct {
	value  any
	set    func(any)
	remove func()
}

// slotsOf returns all values of a document but the root.
func slotsOf(doc any) []slot {
	var out []slot
	var walk func(v any, set func(any))
	walk = func(v any, set func(any)) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				put := func(x any) { v[k] = x }
				out = append(out, slot{v[k], put, func() { delete(v, k) }})
				walk(v[k], put)
			}
		case []any:
			for i := range v {
				put := func(x any) { v[i] = x }
				out = append(out, slot{v[i], put, func() { set(slices.Delete(slices.Clone(v), i, i+1)) }})
				walk(v[i], put)
			}
		}
	}
	walk(doc, nil)
	return out
}

// schemaValues are values at the bounds of types, patterns and ranges.
func schemaValues() []any {
	out := []any{
		nil, true, false, 0, 1, 2, 5, 6, 100, 101, -1, 1.5, -0.5, 2147483647, 2147483648, 1e18,
		[]any{},
		[]any{""},
		[]any{"a"},
		[]any{"a", "a"},
		[]any{nil},
		[]any{1},
		[]any{true},
		[]any{[]any{}},
		[]any{map[string]any{}},
		[]any{"success"},
		[]any{"success", "success"},
		[]any{"failed"},
		[]any{"..", "."},
		[]any{"!"},
		[]any{"", "a"},
		map[string]any{},
		map[string]any{"A": "b"},
		map[string]any{"A": 1, "B": true},
		map[string]any{"A": nil},
		map[string]any{"A": []any{}},
		map[string]any{"A": []any{1, "x", true}},
		map[string]any{"1A": "b"},
		map[string]any{"DROVER_A": "b"},
		map[string]any{"": "b"},
		map[string]any{"a=b": "c"},
		map[string]any{"a.b": "c"},
		map[string]any{"a\x00": "b"},
		map[string]any{"A": "\x00"},
		map[string]any{" ": "b"},
		map[string]any{"..": map[string]any{}},
		map[string]any{"size": "1Mi"},
		map[string]any{"approvers": 1},
		map[string]any{"approvers": 0},
		map[string]any{"approvers": nil},
		map[string]any{"task": "plan"},
		map[string]any{"run": "a"},
		map[string]any{"os": ""},
		map[string]any{"os": "linux"},
		map[string]any{"labels": map[string]any{}},
		map[string]any{"max_attempts": 1},
		map[string]any{"running": "stop"},
		map[string]any{"running": "continue"},
		map[string]any{"running": nil},
	}
	for _, s := range []string{
		"", " ", "\t", "\u00a0", "\u3000", "a", "A", "abc", "a b", "a\nb", "a\x00", "\x7f", "\u0085", "ä", "_", "-", "..", ".", "...", "a/b", "/", "//", "/a", "/a/b", "/a//b",
		"/a/./b", "/a/..b", "/...", "/./..", "../a", "a/../b", "!", "!a", "!..", "!!..", "a=b", "1", "0", "1A", "DROVER_X", "x.y",
		"0s", "90s", "1h30m", "-5s", "-0s", "+5s", "5", ".5h", ".s", "1.s", "1µs", "1d", "1h 5m", "2e3s",
		"0.5", ".5", "5.", "500m", "5n", "4Gi", "4GB", "0Mi", "0.0", "1e9", "0e5", "1e-3", "1E", "+1", "1Ki ",
		"bash", "auto", "manual", "always", "success", "failure", "failed", "fail", "on_failure", "never", "Always",
		"golang:1.26", "Golang", "ghcr.io/a/b", "a//b", "a@sha256:" + strings.Repeat("0", 32), "linux/amd64", "linux/", "1000:1000", ":1", "-x", "a:b:c",
		"{{ x }}", "${{ x }}", `{{ output "plan" "k" }}`, strings.Repeat("x", 100), strings.Repeat("x", 101), strings.Repeat("x", 1024), strings.Repeat("x", 1025),
		"/a/" + strings.Repeat("x", 497), "/a/" + strings.Repeat("x", 498), strings.Repeat("x", 4097), strings.Repeat("x", 513),
	} {
		out = append(out, s)
	}
	return out
}

// schemaWords are keys to add to a map.
func schemaWords() []string {
	out := []string{"", " ", "A", "a", "1", "x y", "DROVER_A", "needs", "env", "$schema", "<<", "Name", "ä", "a=b", "a/b", "a\x00"}
	for _, p := range keysOfSchema() {
		out = append(out, strings.TrimSuffix(p[strings.LastIndexByte(p, '.')+1:], "[]"))
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(k string) bool { return k == "*" })
}

// TestSchema_of_each_value sets each value of a document to some of many values,
// removes it, and adds some of many keys to it. Each value and key has its turn
// at one of twelve neighbours.
func TestSchema_of_each_value(t *testing.T) {
	t.Parallel()
	if testing.Short() { // so too under the race detector, which slows it down
		t.Skip("a long test of one goroutine")
	}
	_, _, err := validateJSON(t, marshal(t, everyKey(t)))
	require.NoError(t, err, "%v", faults(err))
	accepted, rejected := 0, 0
	check := func(doc any) {
		ok, problem := disagreement(t, marshal(t, doc))
		require.Empty(t, problem)
		if ok {
			accepted++
		} else {
			rejected++
		}
	}
	const turns = 12
	values, words := schemaValues(), schemaWords()
	for i := range slotsOf(everyKey(t)) {
		doc := everyKey(t)
		s := slotsOf(doc)[i]
		for j := i % turns; j < len(values); j += turns {
			s.set(values[j])
			check(doc)
		}
		s.set(s.value)
		if m, ok := s.value.(map[string]any); ok {
			for j := i % turns; j < len(words); j += turns {
				k := words[j]
				if _, ok := m[k]; !ok {
					m[k] = "a"
					check(doc)
					m[k] = nil
					check(doc)
					delete(m, k)
				}
			}
		}
		s.remove()
		check(doc)
	}
	require.Greater(t, accepted, 500)
	require.Greater(t, rejected, 500)
}

// A volume is one thing, and absent values are null or empty, for the schema as for the
// gateway.
func TestSchema_volumes(t *testing.T) {
	t.Parallel()
	for volume, valid := range map[string]bool{
		"tmpfs: {}": true, "tmpfs: {}, name: null": true, "tmpfs: {}, name: ''": true, "tmpfs: {}, read_only: false": true, "tmpfs: {}, read_only: null": true,
		"name: x": true, "name: x, tmpfs: null": true, "name: x, read_only: true": true, "name: x, read_only: null": true,
		"tmpfs: {}, read_only: true": false, "tmpfs: {}, name: x": false, "name: ''": false, "name: null": false, "tmpfs: null": false,
		"tmpfs: null, name: null": false, "tmpfs: null, name: ''": false, "read_only: true": false, "name: -x": false,
	} {
		root := new(yaml.Node)
		require.NoError(t, yaml.Unmarshal([]byte(ruleExample("volumes: [{path: /v, "+volume+"}]")), root))
		bySchema, _, byGateway := validateJSON(t, jsonOf(t, root.Content[0]))
		require.Equal(t, []bool{valid, valid}, []bool{bySchema == nil, byGateway == nil}, "%s: %v, %v", volume, bySchema, byGateway)
	}
}

// TestSchema_property changes several values of a document at random.
func TestSchema_property(t *testing.T) {
	t.Parallel()
	base := everyKey(t)
	values, words := schemaValues(), schemaWords()
	data := marshal(t, base)
	rapid.Check(t, func(rt *rapid.T) {
		var doc map[string]any
		require.NoError(rt, json.Unmarshal(data, &doc))
		for range rapid.IntRange(0, 4).Draw(rt, "changes") {
			slots := slotsOf(doc)
			if len(slots) == 0 {
				break
			}
			s := slots[rapid.IntRange(0, len(slots)-1).Draw(rt, "slot")]
			value := rapid.OneOf(
				rapid.SampledFrom(values), rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Int16(), func(i int16) any { return i }),
				rapid.Map(rapid.IntRange(0, len(slots)-1), func(i int) any { return slots[i].value }),
			).Draw(rt, "value")
			value = clone(rt, value)
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				s.remove()
			case 1:
				s.set(value)
			case 2:
				if m, ok := s.value.(map[string]any); ok {
					m[rapid.OneOf(rapid.SampledFrom(words), rapid.String()).Draw(rt, "key")] = value
				} else {
					s.set(value)
				}
			default:
				if list, ok := s.value.([]any); ok {
					s.set(append(slices.Clone(list), value))
				} else {
					s.set([]any{value})
				}
			}
		}
		_, problem := disagreement(t, marshal(t, doc))
		require.Empty(rt, problem)
	})
}

// clone copies a value, so that a document has no value twice.
func clone(t require.TestingT, v any) any {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var out any
	require.NoError(t, json.Unmarshal(data, &out))
	return out
}

// TestSchema_rules checks each rule that the schema cannot state: the schema
// accepts the examples, and the gateway does not.
func TestSchema_rules(t *testing.T) {
	t.Parallel()
	for _, r := range schemaRules() {
		for _, lines := range r.examples {
			text := ruleExample(lines)
			root := new(yaml.Node)
			require.NoError(t, yaml.Unmarshal([]byte(text), root))
			data := jsonOf(t, root.Content[0])
			bySchema, _, byGateway := validateJSON(t, data)
			require.NoError(t, bySchema, text)
			require.NotEmpty(t, faults(byGateway), "%s\n%s", r.text, text)
		}
	}
}

// jsonOf writes a YAML value as JSON, with numbers and duplicate keys as they
// are written.
func jsonOf(t testing.TB, n *yaml.Node) []byte {
	t.Helper()
	var b bytes.Buffer
	switch {
	case n.Kind == yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i < len(n.Content); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(marshal(t, n.Content[i].Value))
			b.WriteByte(':')
			b.Write(jsonOf(t, n.Content[i+1]))
		}
		b.WriteByte('}')
	case n.Kind == yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(jsonOf(t, item))
		}
		b.WriteByte(']')
	case n.ShortTag() == "!!null":
		b.WriteString("null")
	case slices.Contains([]string{"!!int", "!!float", "!!bool"}, n.ShortTag()):
		b.WriteString(n.Value)
	default:
		b.Write(marshal(t, n.Value))
	}
	return b.Bytes()
}

// keysOfSchema returns the paths of all keys of the schema. An asterisk stands
// for a name that the author chooses.
func keysOfSchema() []string {
	var root map[string]any
	if err := json.Unmarshal(api.RunSchema(), &root); err != nil {
		return nil
	}
	found := make(map[string]bool)
	var walk func(path string, node map[string]any)
	walk = func(path string, node map[string]any) {
		if ref, ok := node["$ref"].(string); ok {
			node = root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		}
		if properties, ok := node["properties"].(map[string]any); ok {
			for key, value := range properties {
				at := strings.TrimPrefix(path+"."+key, ".")
				found[at] = true
				walk(at, value.(map[string]any))
			}
		}
		if values, ok := node["additionalProperties"].(map[string]any); ok {
			found[path+".*"] = true
			walk(path+".*", values)
		}
		if items, ok := node["items"].(map[string]any); ok {
			walk(path+"[]", items)
		}
	}
	walk("", root)
	return slices.Sorted(maps.Keys(found))
}

// TestSchema_keys compares the keys of the schema with those of the parser and
// with those of the page of the run file, both ways.
func TestSchema_keys(t *testing.T) {
	t.Parallel()
	inSchema := keysOfSchema()
	inParser := []string{"changegroup_token"} // an extra key of the gateway
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		switch {
		case typ == reflect.TypeFor[time.Time]():
		case typ == reflect.TypeFor[run.Matrix](): // it has axes beside its fields
			inParser = append(inParser, path+".*", path+".include", path+".include[].*", path+".exclude", path+".exclude[].*")
		case typ.Kind() == reflect.Pointer:
			walk(path, typ.Elem())
		case typ.Kind() == reflect.Slice:
			walk(path+"[]", typ.Elem())
		case typ.Kind() == reflect.Map:
			inParser = append(inParser, path+".*")
			walk(path+".*", typ.Elem())
		case typ.Kind() == reflect.Struct:
			for _, field := range reflect.VisibleFields(typ) {
				if !field.Anonymous {
					name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
					at := strings.TrimPrefix(path+"."+name, ".")
					inParser = append(inParser, at)
					walk(at, field.Type)
				}
			}
		}
	}
	walk("", reflect.TypeFor[run.Spec]())
	slices.Sort(inParser)
	require.Equal(t, inParser, inSchema)

	var onPage []string
	for _, m := range regexp.MustCompile("(?m)^#{3,4} `([^`]+)`$").FindAllStringSubmatch(pages.Read(t, "run-file.md"), -1) {
		onPage = append(onPage, regexp.MustCompile(`\.[A-Z]+\b`).ReplaceAllString(m[1], ".*"))
	}
	pages.RequireSame(t, "run-file.md", inSchema, onPage)
	require.Len(t, onPage, len(inSchema), "docs/run-file.md has a heading twice")

	inExample := make(map[string]bool)
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				for _, at := range []string{strings.TrimPrefix(path+"."+key, "."), path + ".*"} {
					if slices.Contains(inSchema, at) {
						inExample[at] = true
						visit(at, value)
					}
				}
			}
		case []any:
			for _, item := range v {
				visit(path+"[]", item)
			}
		}
	}
	visit("", everyKey(t))
	require.Equal(t, inSchema, slices.Sorted(maps.Keys(inExample)), "the keys of every-key.yaml")
}

// TestSchema_rules_are_on_the_page compares the rules that the schema cannot
// state with the list on the page of the run file.
func TestSchema_rules_are_on_the_page(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "run-file.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n### Rules outside of the schema\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n#")
	var onPage, inTest []string
	for line := range strings.Lines(section) {
		if rule, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			onPage = append(onPage, rule)
		}
	}
	for _, r := range schemaRules() {
		inTest = append(inTest, r.text)
	}
	require.Equal(t, inTest, onPage)
}

// TestExamples validates the examples with the parser and with the schema that
// their first lines name.
func TestExamples(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../examples/*.yaml")
	require.NoError(t, err)
	tutorial, err := filepath.Glob("../examples/tutorial/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, tutorial)
	for _, name := range append(names, tutorial...) {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		_, err = spec.Validate(data, spec.FormatYAML)
		require.NoError(t, err, "%s: %v", name, faults(err))
		require.Empty(t, spec.Warnings(data, spec.FormatYAML), name)
		root := new(yaml.Node)
		require.NoError(t, yaml.Unmarshal(data, root))
		bySchema, _, _ := validateJSON(t, jsonOf(t, root.Content[0]))
		require.NoError(t, bySchema, name)

		line, _, _ := strings.Cut(string(data), "\n")
		path, ok := strings.CutPrefix(line, "# yaml-language-server: $schema=")
		require.True(t, ok, "%s has no line for editors", name)
		schema, err := os.ReadFile(filepath.Join(filepath.Dir(name), path))
		require.NoError(t, err)
		require.Equal(t, string(api.RunSchema()), string(schema))
	}
}
