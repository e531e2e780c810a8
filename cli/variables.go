package cli

import (
	"errors"
	"os"
	"strings"

	"github.com/joho/godotenv"
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
)

// variableFlags are the flags for the variables and the secrets of a run.
type variableFlags struct {
	variables, files, secrets []string
}

func (v *variableFlags) addTo(c *cobra.Command) {
	flags := c.Flags()
	flags.StringArrayVarP(&v.variables, "env", "e", nil, "environment variable NAME=VALUE of the run, or NAME with its value here; overrides the file (repeatable)")
	flags.StringArrayVar(&v.files, "env-file", nil, "file with environment variables of the run, one NAME=VALUE a line; --env overrides it (repeatable)")
	flags.StringArrayVar(&v.secrets, "secret", nil, "secret of the run: NAME with its value from the environment here, NAME=@FILE, NAME=@- for standard input, "+
		"or NAME=VALUE, which other users of the host can see; overrides the file (repeatable)")
	_ = c.MarkFlagFilename("env-file")
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

// readEnvFile adds the variables of a file. Errors do not contain its text, which
// may have secrets.
func readEnvFile(env session.Env, name string, out map[string]string) error {
	data, err := readFile(env, name)
	if err != nil {
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err
		}
		return run.Errorf(run.CodeInvalid, "read %s: %w", name, err)
	}
	if len(data) > maxFile {
		return run.Errorf(run.CodeTooLarge, "%s has more than %d bytes", name, maxFile)
	}
	found, err := godotenv.UnmarshalBytes(data)
	if err != nil {
		return run.Errorf(run.CodeInvalid, "read %s: it is not a list of NAME=VALUE lines", name)
	}
	for name, value := range found {
		out[name] = value
	}
	return nil
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
				return nil, command.Invalid("--secret takes NAME with its value from the environment: number %d names a variable that is empty or not set; "+
					"NAME=@FILE reads a file", i+1)
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
