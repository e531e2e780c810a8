package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// plainName matches names of variables that are no secret given by mistake: words with
// few digits at their ends, and several if they are in lower case.
var plainName = regexp.MustCompile(`^(?:_?[A-Z]{1,20}[0-9]{0,3}(?:_[A-Z]{0,20}[0-9]{0,3}){0,7}|_?[a-z]{1,20}[0-9]{0,3}(?:_[a-z]{0,20}[0-9]{0,3}){1,7})$`)

// variableFlags are the flags for the variables, the inputs and the secrets of a
// run.
type variableFlags struct {
	variables, files, secrets []string
	inputs                    inputFlags
}

func (v *variableFlags) addTo(c *cobra.Command) {
	flags := c.Flags()
	flags.StringArrayVarP(&v.variables, "env", "e", nil, "environment variable NAME=VALUE of the run, or NAME with its value here; overrides the file (repeatable)")
	flags.StringArrayVar(&v.files, "env-file", nil, "file with environment variables of the run, one NAME=VALUE a line, with nothing expanded in the values; --env overrides it (repeatable)")
	flags.StringArrayVar(&v.secrets, "secret", nil, "secret of the run: NAME with its value from the environment here, NAME=@FILE, NAME=@- for standard input, "+
		"or NAME=VALUE, which other users of the host can see; overrides the file (repeatable)")
	_ = c.MarkFlagFilename("env-file")
	v.inputs.addTo(c)
}

// inputFlags are values of inputs, NAME=VALUE each.
type inputFlags []string

func (f *inputFlags) addTo(c *cobra.Command) {
	c.Flags().StringArrayVarP((*[]string)(f), "input", "i", nil, "input NAME=VALUE of the run; overrides the file (repeatable)")
	_ = c.RegisterFlagCompletionFunc("input", completeInputs)
}

// read returns the values by name, nil without any. Later ones override earlier
// ones.
func (f inputFlags) read() (map[string]string, error) {
	if len(f) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(f))
	for _, text := range f {
		name, value, given := strings.Cut(text, "=")
		if name == "" || !given {
			return nil, command.Invalid("--input takes NAME=VALUE, not %q", text)
		}
		out[name] = value
	}
	return out, nil
}

// completeInputs completes the names of the inputs of a run file, and the values
// of those that have few.
func completeInputs(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(args) == 0 {
		return nil, directive
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return nil, directive
	}
	s, err := spec.Read(data, formatOf(args[0], data))
	if err != nil {
		return nil, directive
	}
	name, _, valued := strings.Cut(typed, "=")
	var words []string
	for _, known := range slices.Sorted(maps.Keys(s.Inputs)) {
		in := s.Inputs[known]
		switch {
		case !valued:
			words = append(words, cobra.CompletionWithDesc(known+"=", render.Plain(in.Description)))
		case known == name && in.Type == run.InputBoolean:
			words = append(words, known+"=true", known+"=false")
		case known == name:
			for _, option := range in.Options {
				words = append(words, known+"="+option)
			}
		}
	}
	return words, directive
}

// printInputs prints the inputs that a run file declares.
func printInputs(env session.Env, file *specFile, output render.Format) error {
	s, err := spec.Parser{Extra: map[string]*string{tokenKey: new(string)}}.Read(file.data, file.format)
	if err != nil {
		return file.fault(err)
	}
	if output == render.AsJSON {
		declared := s.Inputs
		if declared == nil {
			declared = map[string]run.Input{}
		}
		return render.Line(env.Stdout, map[string]any{"inputs": declared})
	}
	if len(s.Inputs) == 0 {
		_, err := fmt.Fprintf(env.Stdout, "%s has no inputs\n", file.name)
		return err
	}
	t := render.NewTable(env.Stdout, "INPUT", "TYPE", "DEFAULT", "VALUES", "DESCRIPTION")
	for _, name := range slices.Sorted(maps.Keys(s.Inputs)) {
		in := s.Inputs[name]
		otherwise, values := "", strings.Join(in.Options, ", ")
		switch value, set := s.InputValues[name]; {
		case set:
			otherwise = value + " (input_values)"
		case in.Required:
			otherwise = "(required)"
		case in.Default != nil:
			otherwise = *in.Default
		case in.Type == run.InputBoolean:
			otherwise = "false"
		}
		if in.Pattern != "" {
			values = in.Pattern
		}
		t.Row(name, string(cmp.Or(in.Type, run.InputString)), otherwise, values, in.Description)
	}
	return t.Flush()
}

// readVariables returns the variables by name. Those of --env override those of
// files, and later ones earlier ones.
func (v *variableFlags) readVariables(env session.Env) (map[string]string, error) {
	out := make(map[string]string)
	for _, name := range v.files {
		if err := readEnvFile(env, name, out); err != nil {
			return nil, err
		}
	}
	for _, text := range v.variables {
		name, value, given := strings.Cut(text, "=")
		if name == "" {
			return nil, command.Invalid("--env takes NAME=VALUE or NAME, not %q", text)
		}
		if !given {
			if value, given = env.LookupEnv(name); !given {
				return nil, command.Invalid("--env %s: the environment has no variable %s; pass %s=VALUE", name, name, name)
			}
		}
		out[name] = value
	}
	return out, nil
}

// readSecrets returns the secrets by name. Errors do not contain the argument,
// which may be a secret without a name.
func (v *variableFlags) readSecrets(env session.Env) (map[string]string, error) {
	out := make(map[string]string)
	for i, text := range v.secrets {
		name, value, given := strings.Cut(text, "=")
		file, isFile := strings.CutPrefix(value, "@")
		var err error
		switch {
		case name == "" || isFile && file == "":
			return nil, command.Invalid("--secret takes NAME, NAME=@FILE, NAME=@- for standard input, or NAME=VALUE")
		case isFile:
			value, err = readSecret(env, file)
		case !given:
			value = env.Variable(name)
			if value == "" {
				which := fmt.Sprintf("number %d names a variable that", i+1)
				if plainName.MatchString(name) {
					which = "the variable " + name
				}
				return nil, command.Invalid("--secret takes NAME with its value from the environment: %s is empty or not set; NAME=@FILE reads a file", which)
			}
		case value == "":
			return nil, command.Invalid("--secret %s: the value is empty", name)
		}
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, nil
}

// readSecret reads a file with a secret, without the line end that editors add.
func readSecret(env session.Env, name string) (string, error) {
	data, err := readFile(env, name)
	switch {
	case err != nil:
		return "", run.Errorf(run.CodeInvalid, "read the secret: %w", err)
	case len(data) >= run.MaxVariableBytes:
		return "", run.Errorf(run.CodeTooLarge, "the secret in %s is too long: it must have less than %d bytes", name, run.MaxVariableBytes)
	case !utf8.Valid(data):
		return "", run.Errorf(run.CodeInvalid, "the secret in %s is not UTF-8; encode it, such as with base64", name)
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if secret == "" {
		return "", run.Errorf(run.CodeInvalid, "the secret in %s is empty", name)
	}
	return secret, nil
}
