package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// maxFile bounds how much of a file is read: more than the gateway accepts, so
// that the gateway reports a file that is too large.
const maxFile = 4 * run.MaxRequestBytes

const mediaJSON = "application/json"

// specFile is a specification in a file.
type specFile struct {
	name   string // for messages
	data   []byte
	format spec.Format
	inputs map[string]string // values of flags, which override those in the file
	// rewritten says that the gateway gets the specification in other lines than those of the
	// file.
	rewritten bool
}

func readSpecFile(env session.Env, name string) (*specFile, error) {
	data, err := readFile(env, name)
	if err != nil {
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err
		}
		return nil, run.Errorf(run.CodeInvalid, "read %s: %w", name, err)
	}
	f := &specFile{name: name, data: data, format: formatOf(name, data)}
	if name == "-" {
		f.name = "stdin"
	}
	if len(data) > maxFile {
		return nil, f.fault(run.Errorf(run.CodeTooLarge, "the file has more than %d bytes; the limit is %d", maxFile, run.MaxRequestBytes))
	}
	return f, nil
}

func readFile(env session.Env, name string) ([]byte, error) {
	if name == "-" {
		in, err := env.TakeStdin("a file named -")
		if err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(in, maxFile+1))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// validate checks the specification as far as possible without a gateway: only
// the gateway knows the pools. Without values of inputs, it accepts that required
// ones are missing.
func (f *specFile) validate(inputs map[string]string) (*run.Spec, error) {
	f.inputs = inputs
	s, err := spec.Parser{InputValues: inputs, NoInputs: len(inputs) == 0}.Validate(f.data, f.format)
	if err != nil {
		return nil, f.fault(err)
	}
	return s, nil
}

// specChange is the changes of flags to a specification.
type specChange struct {
	variables map[string]string // for the environment of the run
	secrets   map[string]string // values by name
	inputs    map[string]string // likewise
	token     string
}

func (c specChange) empty() bool {
	return len(c.variables) == 0 && len(c.secrets) == 0 && len(c.inputs) == 0 && c.token == ""
}

// tokenKey is the key of the update token, which a request has beside the keys of
// its specification.
const tokenKey = "changegroup_token"

// change returns the changed specification as JSON.
func (f *specFile) change(c specChange) ([]byte, error) {
	f.inputs, f.rewritten = c.inputs, true
	token := ""
	s, err := spec.Parser{Extra: map[string]*string{tokenKey: &token}, InputValues: c.inputs}.Read(f.data, f.format)
	if err != nil {
		return nil, f.fault(err)
	}
	if s.Environment == nil {
		s.Environment = make(map[string]string)
	}
	maps.Copy(s.Environment, c.variables)
	if s.Secrets == nil {
		s.Secrets = make(map[string]run.Secret)
	}
	for name, value := range c.secrets {
		s.Secrets[name] = run.Secret(value)
		delete(s.SecretsFrom, name)
	}
	body, err := spec.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("change %s: %w", f.name, err)
	}
	if token = cmp.Or(c.token, token); token == "" {
		return body, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(body, &keys); err != nil {
		return nil, fmt.Errorf("change %s: %w", f.name, err)
	}
	if keys[tokenKey], err = json.Marshal(token); err != nil {
		return nil, fmt.Errorf("change %s: %w", f.name, err)
	}
	return json.Marshal(keys)
}

// media returns the media type of the file.
func (f *specFile) media() string {
	if f.format == spec.FormatJSON {
		return mediaJSON
	}
	return "application/yaml"
}

// fault converts an error of the specification to an error of the file.
func (f *specFile) fault(err error) error { return f.faultOf(err, spec.Locate) }

// refused converts the gateway's refusal of the specification to an error of the file.
func (f *specFile) refused(err error) error {
	if !f.rewritten {
		return f.fault(err)
	}
	return f.faultOf(err, func(faults []run.Fault, data []byte, format spec.Format) []run.Fault {
		faults = slices.Clone(faults)
		for i := range faults {
			faults[i].Line = 0
		}
		faults = spec.Locate(faults, data, format)
		// Those without a line are last.
		slices.SortStableFunc(faults, func(a, b run.Fault) int { return cmp.Compare(uint(a.Line)-1, uint(b.Line)-1) })
		return faults
	})
}

// faultOf is fault with line numbers from locate.
func (f *specFile) faultOf(err error, locate func([]run.Fault, []byte, spec.Format) []run.Fault) error {
	var coded *run.Error
	if !errors.As(err, &coded) || command.ExitOfCode(coded.Code) != command.ExitInvalid {
		return err
	}
	coded = &run.Error{Code: coded.Code, Message: coded.Message, Err: coded.Err, Faults: f.nameInputs(locate(coded.Faults, f.data, f.format))}
	return command.FaultyFile(f.name, coded)
}

// nameInputs returns the faults with those of inputs whose value is not that of the file
// under the name of their flag, without a line.
func (f *specFile) nameInputs(faults []run.Fault) []run.Fault {
	var file struct {
		Values map[string]any `yaml:"input_values"`
	}
	if yaml.Unmarshal(f.data, &file) != nil {
		return faults
	}
	for i, fault := range faults {
		name, ok := strings.CutPrefix(fault.Path, "input_values.")
		_, known := file.Values[name]
		_, given := f.inputs[name]
		if ok && (given || !known) {
			faults[i].Path, faults[i].Line = "--input "+name, 0
		}
	}
	return faults
}
