package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/editor"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// restartFlags are the flags of the command restart.
type restartFlags struct {
	from, key string
	tasks     []string
	variables variableFlags
	token     string
	watch     *watcher
	following bool
	edit      bool
	file      string
	dryRun    bool
	edited    *editor.File // after the editor
}

func restartCommand(f *runsFlags) *cobra.Command {
	r := &restartFlags{watch: &watcher{env: f.env}}
	c := &cobra.Command{
		Use:   "restart ID",
		Short: "Create a new run from one that has ended",
		Long: `Creates a new run from one that has ended, and prints its id. Tasks that failed or were stopped run again, with all tasks that
depend on them; --from start runs all tasks, and --task selects tasks to run, with all tasks that depend on them. Other tasks
keep their results, logs and outputs. Variables, inputs and secrets override those of the old run.
If another subject gave the old run its secrets, a restart with changed variables, inputs or secrets needs all secrets again.

With --edit the specification of the old run is opened in the editor that VISUAL or EDITOR names; an unchanged or empty file cancels
the restart. --file takes the changed specification from a file. The changed one runs from its start; with --from failed or --task,
tasks keep their results if they succeeded and it changes neither them nor what they depend on, nor variables or secrets that
they have. What is kept, and why other tasks run, is printed before the restart, and alone with --dry-run.
The editor shows neither the comments nor the order of the tasks of the submitted file.
Secrets are shown as [redacted], and keep their values if you gave them to the old run; else give them again.`,
		Example: `  drover runs restart 01k8z3m6w4v6q2d1c9x7b5a3n1
  drover runs restart 01k8z3m6w4v6q2d1c9x7b5a3n1 --from start --env COMMIT=4f2a --follow
  drover runs restart 01k8z3m6w4v6q2d1c9x7b5a3n1 --edit --from failed
  drover runs restart 01k8z3m6w4v6q2d1c9x7b5a3n1 --file run.yaml --from failed --dry-run
  drover runs restart 01k8z3m6w4v6q2d1c9x7b5a3n1 --task deploy --secret TOKEN=@token.txt`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: f.completeRun(1),
		RunE: func(c *cobra.Command, args []string) error { return r.restart(c, f, args[0]) },
	}
	flags := c.Flags()
	flags.StringVar(&r.from, "from", "", "start (the default with --edit and --file), or failed (the default without --task)")
	flags.StringArrayVar(&r.tasks, "task", nil, "task to run again, or a task with an expansion (repeatable)")
	flags.BoolVar(&r.edit, "edit", false, "change the specification in an editor")
	flags.StringVar(&r.file, "file", "", `run file that replaces the specification ("-" is standard input)`)
	flags.BoolVar(&r.dryRun, "dry-run", false, "only print which tasks run and which keep their results")
	r.variables.addTo(c)
	flags.StringVar(&r.key, "idempotency-key", "", "creates one run for all restarts with this key in 24 hours")
	addToken(c, &r.token)
	flags.BoolVarP(&r.following, "follow", "f", false, "show the new run until it has ended")
	r.watch.addTo(c)
	_ = c.RegisterFlagCompletionFunc("task", f.completeTaskFlag)
	_ = c.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"start", "failed"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (r *restartFlags) restart(c *cobra.Command, f *runsFlags, id string) error {
	if r.from != "" && len(r.tasks) > 0 {
		return command.Invalid("--from and --task exclude each other")
	}
	if r.edit && r.file != "" {
		return command.Invalid("--edit and --file exclude each other")
	}
	if r.from == "" && len(r.tasks) == 0 {
		r.from = string(run.RestartFailed)
		if r.edit || r.file != "" {
			r.from = string(run.RestartStart)
		}
	}
	body := api.Restart{From: api.RestartFrom(r.from), Tasks: r.tasks, ChangegroupToken: r.token}
	var err error
	if body.Environment, err = r.variables.readVariables(f.env); err != nil {
		return err
	}
	if body.InputValues, err = r.variables.inputs.read(); err != nil {
		return err
	}
	if body.Secrets, err = r.variables.readSecrets(f.env); err != nil {
		return err
	}
	client, err := f.conn.Open()
	if err != nil {
		return err
	}
	changedSpec, err := r.changedSpec(c.Context(), f, client, id)
	switch {
	case errors.Is(err, editor.ErrUnchanged):
		_, err = fmt.Fprintln(f.env.Stderr, "Restart cancelled: the specification is unchanged or empty.")
		return err
	case err != nil:
		return err
	case changedSpec != nil:
		body.Spec, changedSpec.inputs = string(changedSpec.data), body.InputValues
	}
	planned, err := r.plan(c.Context(), f, client, id, body)
	if err != nil || !planned {
		r.keepEdited(f, id)
		return r.fault(id, changedSpec, err)
	}
	created, err := client.Restart(c.Context(), id, body, r.key)
	if err != nil {
		r.keepEdited(f, id)
	} else if r.edited != nil {
		r.edited.Remove()
	}
	if errors.Is(err, remote.ErrUncertain) && r.key != "" {
		return run.Errorf(run.CodeUnavailable, "%w; repeat the restart with the same --idempotency-key", err)
	}
	if errors.Is(err, remote.ErrUncertain) {
		return run.Errorf(run.CodeUnavailable, "%w; check whether the run was restarted with drover runs get %s", err, id)
	}
	if err != nil {
		return r.fault(id, changedSpec, err)
	}
	remember(f.env, f.conn, created.Value.ID)
	switch {
	case r.following:
		return r.watch.follow(c.Context(), client, created.Value, f.output)
	case f.output == render.AsJSON:
		return render.JSON(f.env.Stdout, created.Raw)
	}
	_, err = fmt.Fprintln(f.env.Stdout, created.Value.ID)
	return err
}

// fault names in an error what the user wrote: the places in the file, or the flags.
func (*restartFlags) fault(id string, changed *specFile, err error) error {
	switch {
	case err == nil:
		return nil
	case changed != nil:
		return changed.fault(err)
	}
	return flagFaults(id, err)
}

// keepEdited says where the file is that the editor changed.
func (r *restartFlags) keepEdited(f *runsFlags, id string) {
	if r.edited != nil {
		flags := ""
		if r.from != "" && r.from != string(run.RestartStart) {
			flags = " --from " + r.from
		}
		for _, task := range r.tasks {
			flags += " --task " + quoted(task)
		}
		_, _ = fmt.Fprintf(f.env.Stderr, "The changed file is kept: drover runs restart %s --file %s%s, with the other flags as before\n", id, r.edited.Path, flags)
	}
}

// flagFaults names the inputs, the variables and the secrets in the faults of a restart
// after the flags that set them.
func flagFaults(id string, err error) error {
	coded, ok := errors.AsType[*run.Error](err)
	if !ok || len(coded.Faults) == 0 || command.ExitOfCode(coded.Code) != command.ExitInvalid {
		return err
	}
	faults := slices.Clone(coded.Faults)
	for i, fault := range faults {
		for key, flag := range map[string]string{"input_values.": "--input ", "environment.": "--env ", "secrets.": "--secret "} {
			if name, ok := strings.CutPrefix(fault.Path, key); ok {
				faults[i].Path = flag + name
			}
		}
	}
	return command.FaultyRestart(id, &run.Error{Code: coded.Code, Message: coded.Message, Err: coded.Err, Faults: faults})
}

// changedSpec returns the specification that replaces the one of the old run, nil if
// none does.
func (r *restartFlags) changedSpec(ctx context.Context, f *runsFlags, client *remote.Client, id string) (*specFile, error) {
	switch {
	case r.file != "":
		return readSpecFile(f.env, r.file)
	case !r.edit:
		return nil, nil //nolint:nilnil // there is none, which is no error
	}
	answer, err := client.RunSpec(ctx, id)
	if err != nil {
		return nil, err
	}
	text, err := spec.WriteYAML(answer.Raw)
	if err != nil {
		return nil, err
	}
	kept := "run it from its start"
	if r.from != string(run.RestartStart) {
		kept = "run what it changes, and what failed"
		if len(r.tasks) > 0 {
			kept = "run what it changes, and " + strings.Join(r.tasks, ", ")
		}
	}
	head := fmt.Sprintf("# The specification of run %s. Save a change to %s, as a restart of that run;\n"+
		"# without a change, or if the file is empty, nothing happens. Secrets that stay [redacted] keep their values.\n", id, kept)
	if r.edited, err = editor.Edit(ctx, f.env, "run.yaml", append([]byte(head), text...)); err != nil {
		return nil, err
	}
	return &specFile{name: r.edited.Path, data: r.edited.Text, format: spec.FormatYAML}, nil
}

func specCommand(f *runsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "spec ID",
		Short: "Print the specification of a run",
		Long: `Prints the specification of a run as it was submitted, as YAML, or with -o json as JSON. Short forms are written out, and the value
of each secret is [redacted], which a submission does not accept. Comments and the order of the tasks are not kept.`,
		Example:           "  drover runs spec 01k8z3m6w4v6q2d1c9x7b5a3n1 > run.yaml",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: f.completeRun(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.RunSpec(c.Context(), args[0])
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			text, err := spec.WriteYAML(answer.Raw)
			if err != nil {
				return err
			}
			_, err = f.env.Stdout.Write(text)
			return err
		},
	}
}

func deleteCommand(f *runsFlags) *cobra.Command {
	var params api.DeleteRunsParams
	age, keep := "", 0
	c := &cobra.Command{
		Use:   "delete [ID...]",
		Short: "Delete runs that have ended, with their logs, permanently",
		Long: `Deletes runs that have ended, with their logs: the given runs, or all that are older than --older-than, or all but the newest
of each group (--keep), or both. It does not ask for confirmation: --dry-run prints the number of runs.`,
		Example: `  drover runs delete 01k8z3m6w4v6q2d1c9x7b5a3n1
  drover runs delete --older-than 720h --group /project/42 --dry-run
  drover runs delete --keep 100`,
		ValidArgsFunction: f.completeRun(0),
		RunE: func(c *cobra.Command, ids []string) error {
			many := age != "" || keep > 0
			switch {
			case keep < 0:
				return command.Invalid("--keep must be at least 1")
			case many == (len(ids) > 0):
				return command.Invalid("no runs selected: give ids, or --older-than or --keep")
			case !many && (params.Group != "" || params.DryRun):
				return command.Invalid("--group and --dry-run require --older-than or --keep")
			}
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			if !many {
				return forEach(ids, func(id string) error {
					if err := client.Delete(c.Context(), id); err != nil {
						return err
					}
					_, err := fmt.Fprintf(f.env.Stdout, "run %s deleted\n", id)
					return err
				})
			}
			if age != "" {
				before, err := f.env.ParseTime(age)
				if err != nil {
					return command.Invalid("--older-than: %w", err)
				}
				params.CreatedBefore = &before
			}
			if keep > 0 {
				params.Keep = &keep
			}
			return f.deleteMany(c, client, &params)
		},
	}
	flags := c.Flags()
	flags.StringVar(&age, "older-than", "", "only runs created before this: an age such as 720h, or a time")
	flags.IntVar(&keep, "keep", 0, "number of newest runs of each group to keep")
	flags.StringVar(&params.Group, "group", "", "only runs of this group and of all groups below it")
	flags.BoolVar(&params.DryRun, "dry-run", false, "only print the number of runs")
	return c
}

// deleteMany repeats the call until no run is left to delete. On a terminal it
// prints the progress.
func (f *runsFlags) deleteMany(c *cobra.Command, client *remote.Client, params *api.DeleteRunsParams) error {
	begin, total := f.env.Now(), 0
	for {
		done, err := client.DeleteMany(c.Context(), params)
		if err != nil {
			return err
		}
		total += done.Value.Runs
		switch {
		case f.output == render.AsJSON && (params.DryRun || !done.Value.More):
			return render.Line(f.env.Stdout, api.Deleted{Runs: total, More: done.Value.More})
		case params.DryRun && done.Value.More:
			_, err = fmt.Fprintf(f.env.Stdout, "%s or more would be deleted\n", count(total, "run"))
			return err
		case params.DryRun:
			_, err = fmt.Fprintf(f.env.Stdout, "%s would be deleted\n", count(total, "run"))
			return err
		case !done.Value.More:
			_, err = fmt.Fprintf(f.env.Stdout, "%s deleted\n", count(total, "run"))
			return err
		}
		if f.env.Now().Sub(begin) > time.Second && f.env.IsTerminal() {
			_, _ = fmt.Fprintf(f.env.Stderr, "%s deleted so far\n", count(total, "run"))
		}
	}
}
