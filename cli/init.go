package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// firstFile is the run file that init writes. FILE and SCHEMA are replaced.
//
//go:embed init.yaml
var firstFile string

func initCommand(env session.Env) *cobra.Command {
	gateway := session.New(env)
	c := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a first run file",
		Long: `Writes a commented run file, which is valid and runs on drover dev: drover.yaml, or FILE. It does not replace an existing file.
The first line names the schema at the gateway, by which editors check the file and complete its keys.`,
		Example:           "  drover init\n  drover run drover.yaml --follow",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeAllSpecs,
		RunE: func(_ *cobra.Command, args []string) error {
			name := "drover.yaml"
			if len(args) > 0 {
				name = args[0]
			}
			if format, _ := spec.Detect(name); format == spec.FormatJSON {
				return command.Invalid("init writes YAML: %s needs another extension", name)
			}
			address, err := gateway.Address()
			if err != nil {
				return err
			}
			schema := strings.TrimRight(address, "/") + "/schemas/run.json"
			text := strings.NewReplacer("SCHEMA", schema, "FILE", name).Replace(firstFile)
			if err := writeNew(name, text); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(env.Stdout, "%s: written; run it with drover run %s --follow\n", name, name)
			return nil
		},
	}
	gateway.AddServerTo(c)
	return c
}

// writeNew writes a file that does not exist yet.
func writeNew(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // others may read a run file
	if errors.Is(err, fs.ErrExist) {
		return run.Errorf(run.CodeInvalid, "%s exists already", name)
	}
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = path.Err
	}
	if err != nil {
		return run.Errorf(run.CodeInvalid, "write %s: %w", name, err)
	}
	return nil
}
