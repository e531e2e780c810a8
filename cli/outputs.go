package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/run"
)

func outputsCommand(f *runsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "outputs ID [TASK [KEY]]",
		Short: "Print the outputs of tasks",
		Long: `Prints the outputs of tasks: the keys and values that their steps wrote to $DROVER_OUTPUT. Without TASK it lists all tasks with
outputs. With KEY it prints only that value, followed by a line break if it has none at its end.`,
		Example: `  drover runs outputs 01k8z3m6w4v6q2d1c9x7b5a3n1
  drover runs outputs 01k8z3m6w4v6q2d1c9x7b5a3n1 build
  drover runs outputs 01k8z3m6w4v6q2d1c9x7b5a3n1 build version`,
		Args:              cobra.RangeArgs(1, 3),
		ValidArgsFunction: f.completeTasks(nil),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			r, err := client.Run(c.Context(), args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return f.printAllOutputs(r.Value)
			}
			task, ok := r.Value.Tasks[args[1]]
			if !ok {
				return noTask(r.Value, args[1])
			}
			if len(args) == 2 {
				return f.printOutputs(task.Outputs)
			}
			value, ok := task.Outputs[args[2]]
			if !ok {
				return noOutput(args[1], args[2], task.Outputs)
			}
			if !strings.HasSuffix(value, "\n") {
				value += "\n"
			}
			_, err = fmt.Fprint(f.env.Stdout, value)
			return err
		},
	}
}

// noOutput returns the error for an unknown key. It names the keys.
func noOutput(task, key string, outputs map[string]string) error {
	if len(outputs) == 0 {
		return run.Errorf(run.CodeNotFound, "task %s has no outputs", task)
	}
	return run.Errorf(run.CodeNotFound, "task %s has no output %s; its outputs are %s", task, key, strings.Join(slices.Sorted(maps.Keys(outputs)), ", "))
}

// printAllOutputs prints the outputs of all tasks that have any.
func (f *runsFlags) printAllOutputs(r api.Run) error {
	all := make(map[string]map[string]string)
	t := render.NewTable(f.env.Stdout, "TASK", "KEY", "VALUE")
	for _, name := range sortedTaskNames(r.Tasks) {
		outputs := r.Tasks[name].Outputs
		for _, key := range slices.Sorted(maps.Keys(outputs)) {
			t.Row(name, key, outputs[key])
			all[name] = outputs
		}
	}
	switch {
	case f.output == render.AsJSON:
		return render.Line(f.env.Stdout, all)
	case len(all) == 0:
		_, err := fmt.Fprintf(f.env.Stderr, "no task of run %s has outputs\n", r.ID)
		return err
	}
	return t.Flush()
}

func (f *runsFlags) printOutputs(outputs map[string]string) error {
	if f.output == render.AsJSON {
		if outputs == nil {
			outputs = map[string]string{}
		}
		return render.Line(f.env.Stdout, outputs)
	}
	t := render.NewTable(f.env.Stdout, "KEY", "VALUE")
	for _, key := range slices.Sorted(maps.Keys(outputs)) {
		t.Row(key, outputs[key])
	}
	return t.Flush()
}
