package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// fileResult is the result of validate for one file.
type fileResult struct {
	File  string `json:"file"`
	Valid bool   `json:"valid"`
	Name  string `json:"name,omitempty"`
	Tasks int    `json:"tasks,omitempty"` // after expansion
	// Inputs are those that the file declares.
	Inputs map[string]run.Input `json:"inputs,omitempty"`
	Errors []api.Fault          `json:"errors,omitempty"`
	// Warnings are probable mistakes in a valid file.
	Warnings []api.Fault `json:"warnings,omitempty"`
}

func validateCommand(env session.Env) *cobra.Command {
	var output render.Format
	var values inputFlags
	c := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check specifications without a gateway",
		Long: `Checks specifications, YAML or JSON ("-" is standard input), and prints every fault with its line. It uses no gateway, so it
does not check whether the pools exist. In a valid file it warns about templates in places that do not expand them; warnings do
not change the exit code.

Values of required inputs may be missing, unless --input gives any. The JSON has the inputs of each file.`,
		Example:           "  drover validate build.yaml\n  drover validate -o json *.yaml",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeAllSpecs,
		RunE: func(c *cobra.Command, args []string) error {
			inputs, err := values.read()
			if err != nil {
				return err
			}
			good := true
			for _, name := range args {
				v, err := validateFile(env, name, inputs)
				if err != nil {
					good = false
				}
				switch {
				case output == render.AsJSON:
					if err := render.Line(env.Stdout, v); err != nil {
						return err
					}
				case err != nil:
					command.PrintError(env.Stderr, c, err)
				default:
					for _, w := range v.Warnings {
						_, _ = fmt.Fprintf(env.Stderr, "%s:%d: warning: %s: %s\n", v.File, w.Line, w.Path, w.Detail)
					}
					_, _ = fmt.Fprintf(env.Stdout, "%s: valid, %s\n", v.File, count(v.Tasks, "task"))
				}
			}
			if !good {
				return command.Exit(command.ExitInvalid)
			}
			return nil
		},
	}
	values.addTo(c)
	output.AddTo(c, render.AsTable)
	return c
}

// validateFile checks one file.
func validateFile(env session.Env, name string, inputs map[string]string) (fileResult, error) {
	v := fileResult{File: name}
	file, err := readSpecFile(env, name)
	var s *run.Spec
	if err == nil {
		v.File = file.name
		s, err = file.validate(inputs)
	}
	if err == nil {
		x, faults := spec.Expand(s, nil)
		if len(faults) > 0 {
			err = file.fault(run.InvalidError("the specification is not valid", faults))
		}
		v.Tasks = len(x.Tasks)
	}
	if err != nil {
		v.Errors = faultsOf(err)
		return v, err
	}
	v.Valid, v.Name, v.Inputs = true, s.Name, s.Inputs
	v.Warnings = apiFaults(spec.Warnings(file.data, file.format))
	return v, nil
}

func faultsOf(err error) []api.Fault {
	var coded *run.Error
	if !errors.As(err, &coded) || len(coded.Faults) == 0 {
		return []api.Fault{{Code: string(run.CodeOf(err)), Detail: err.Error()}}
	}
	return apiFaults(coded.Faults)
}

func apiFaults(faults []run.Fault) []api.Fault {
	var all []api.Fault
	for _, f := range faults {
		all = append(all, api.Fault{Path: f.Path, Line: f.Line, Code: string(f.Code), Detail: f.Detail})
	}
	return all
}

func completeAllSpecs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
