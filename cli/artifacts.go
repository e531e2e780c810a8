package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/internal/durable"
)

func artifactsCommand(env session.Env) *cobra.Command {
	f := &runsFlags{env: env, conn: session.New(env)}
	c := &cobra.Command{
		Use:     "artifacts",
		Short:   "List and get artifacts of runs",
		Example: "  drover artifacts list RUN\n  drover artifacts get RUN TASK NAME -o DIR",
	}
	command.Parent(c)
	f.conn.AddTo(c)
	c.AddCommand(listArtifactsCommand(f), getArtifactCommand(f))
	f.conn.AcceptLast(c.Commands()...)
	return c
}

func listArtifactsCommand(f *runsFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "list RUN [TASK NAME]",
		Short: "List the artifacts of a run, or the files of an artifact",
		Example: `  drover artifacts list 01k8z3m6w4v6q2d1c9x7b5a3n1
  drover artifacts list 01k8z3m6w4v6q2d1c9x7b5a3n1 test report`,
		Args:              cobra.MatchAll(cobra.RangeArgs(1, 3), noneOrBoth),
		ValidArgsFunction: f.completeTasks(nil),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return f.listArtifacts(c.Context(), client, args[0])
			}
			return f.listEntries(c.Context(), client, remote.Artifact{Run: args[0], Task: args[1], Name: args[2]})
		},
	}
	f.output.AddTo(c, render.AsTable)
	return c
}

// noneOrBoth refuses a task without the name of its artifact.
func noneOrBoth(_ *cobra.Command, args []string) error {
	if len(args) == 2 {
		return errors.New("TASK requires the NAME of one of its artifacts")
	}
	return nil
}

func (f *runsFlags) listArtifacts(ctx context.Context, client *remote.Client, id string) error {
	answer, err := client.Artifacts(ctx, id)
	if err != nil {
		return err
	}
	if f.output == render.AsJSON {
		return render.Line(f.env.Stdout, answer.Raw)
	}
	t := render.NewTable(f.env.Stdout, "TASK", "NAME", "BYTES", "TESTS", "EXPIRES")
	for _, a := range answer.Value.Artifacts {
		expires := "with the run"
		switch {
		case a.Removed:
			expires = "removed"
		case !a.ExpiresAt.IsZero():
			expires = a.ExpiresAt.UTC().Format("2006-01-02 15:04")
		}
		t.Row(a.Task, a.Name, fmt.Sprint(a.Size), testsText(a.Tests), expires)
	}
	return t.Flush()
}

// testsText summarizes the test results.
func testsText(s api.TestSummary) string {
	switch {
	case s.Tests == 0 && len(s.Faults) > 0:
		return "unreadable"
	case s.Tests == 0:
		return ""
	}
	return fmt.Sprintf("%d of %d failed", s.Failed, s.Tests)
}

func (f *runsFlags) listEntries(ctx context.Context, client *remote.Client, of remote.Artifact) error {
	answer, err := client.ArtifactEntries(ctx, of)
	if err != nil {
		return err
	}
	if f.output == render.AsJSON {
		return render.Line(f.env.Stdout, answer.Raw)
	}
	t := render.NewTable(f.env.Stdout, "MODE", "BYTES", "PATH")
	for _, e := range answer.Value.Entries {
		path := e.Path
		if e.Type == api.ArtifactEntryTypeDirectory {
			path += "/"
		}
		if e.Target != "" {
			path += " -> " + e.Target
		}
		t.Row(e.Mode, fmt.Sprint(e.Size), path)
	}
	if err := t.Flush(); err != nil || !answer.Value.More {
		return err
	}
	_, err = fmt.Fprintln(f.env.Stderr, "The artifact has more entries.")
	return err
}

func getArtifactCommand(f *runsFlags) *cobra.Command {
	var path, out string
	var direct bool
	c := &cobra.Command{
		Use:   "get RUN TASK NAME",
		Short: "Get an artifact, or one file of it",
		Long: `Unpacks an artifact into the directory --out, by default the current one. Existing files stay, except files of the same names, and
nothing is written outside of the directory. With --path it gets one file of the artifact and writes it to the file --out, by default
to standard output. With --out - it writes the whole artifact to standard output, as a tar stream compressed by zstd.`,
		Example: `  drover artifacts get 01k8z3m6w4v6q2d1c9x7b5a3n1 test report -o report
  drover artifacts get 01k8z3m6w4v6q2d1c9x7b5a3n1 test report --path report/tests.xml`,
		Args:              cobra.ExactArgs(3),
		ValidArgsFunction: f.completeTasks(nil),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			of := remote.Artifact{Run: args[0], Task: args[1], Name: args[2], Path: path, Direct: direct}
			switch {
			case out == "-" || path != "" && out == "":
				return client.GetArtifact(c.Context(), of, copyTo(f.env.Stdout))
			case path != "":
				return getFile(c.Context(), client, of, out)
			case out == "":
				out = "."
			}
			return client.GetArtifact(c.Context(), of, func(ctx context.Context, r io.Reader) error {
				_, err := archive.Unpack(ctx, out, r, archive.Unpacking{})
				return err
			})
		},
	}
	c.Flags().BoolVar(&direct, "direct", false, "read directly from the object store, if the gateway allows it and the store is reachable")
	c.Flags().StringVar(&path, "path", "", "get only this file of the artifact")
	c.Flags().StringVarP(&out, "out", "o", "", "directory to unpack into, or file to write; - for standard output")
	return c
}

func copyTo(w io.Writer) func(context.Context, io.Reader) error {
	return func(_ context.Context, r io.Reader) error {
		_, err := io.Copy(w, r)
		return err
	}
}

// getFile writes one file of an artifact. The file is complete, or as before.
func getFile(ctx context.Context, client *remote.Client, of remote.Artifact, out string) error {
	// The umask decides, as for any file that a user creates.
	return durable.Replace(out, 0o666, func(f *os.File) error { return client.GetArtifact(ctx, of, copyTo(f)) })
}
