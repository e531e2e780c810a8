// Command drover-agent runs executors: it has the role executor of drover, and
// nothing that only other roles need.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cmd/internal/executorrole"
	"github.com/drover-run/drover/cmd/internal/process"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process immediately.
	context.AfterFunc(ctx, stop)
	code := command.Execute(ctx, newRoot(), os.Args[1:])
	stop()
	os.Exit(int(code))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "drover-agent",
		Short: "Run an executor of Drover",
		Long: `Run an executor of Drover. The commands are those of drover with the same names: only the parts that an
executor needs are in this program.

Exit codes: 0 done, 2 wrong usage or configuration, 4 the gateway cannot be reached or does not allow it, 5 anything else.`,
	}
	root.AddCommand(process.StartCommand("executor", "  drover start executor --config /etc/drover/executor.yaml", executorrole.Command()),
		process.HealthCommand(), process.ConfigCommand(), command.Version())
	command.Complete(root)
	return root
}
