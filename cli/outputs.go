package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func outputsCommand(f *runsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "outputs ID TASK [KEY]",
		Short: "Print the outputs of a task",
		Long: `Prints the outputs of a task: the keys and values that its steps wrote to $DROVER_OUTPUT. With KEY it prints only that value,
followed by a line break if it has none at its end.`,
		Example: `  drover runs outputs 01k8z3m6w4v6q2d1c9x7b5a3n1 build
  drover runs outputs 01k8z3m6w4v6q2d1c9x7b5a3n1 build version`,
		Args:              cobra.RangeArgs(2, 3),
		ValidArgsFunction: f.completeTasks(nil),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.open()
			if err != nil {
				return err
			}
			r, err := client.Run(c.Context(), args[0])
			if err != nil {
				return err
			}
			task, ok := r.Value.Tasks[args[1]]
			if !ok {
				return invalid("run %s has no task %s", args[0], args[1])
			}
			if len(args) == 2 {
				return f.printOutputs(task.Outputs)
			}
			value, ok := task.Outputs[args[2]]
			if !ok {
				return invalid("task %s has no output %s", args[1], args[2])
			}
			if !strings.HasSuffix(value, "\n") {
				value += "\n"
			}
			_, err = fmt.Fprint(f.env.Stdout, value)
			return err
		},
	}
}

func (f *runsFlags) printOutputs(outputs map[string]string) error {
	if f.output == formatJSON {
		if outputs == nil {
			outputs = map[string]string{}
		}
		return printLine(f.env.Stdout, outputs)
	}
	t := newTable(f.env.Stdout, "KEY", "VALUE")
	for _, key := range slices.Sorted(maps.Keys(outputs)) {
		t.row(key, outputs[key])
	}
	return t.flush()
}
