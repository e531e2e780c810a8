package cli

import "github.com/spf13/cobra"

func fleetsCommand(env Env) *cobra.Command {
	c := &cobra.Command{Use: "fleets", Short: "Try out how fleets of machines grow and shrink"}
	c.AddCommand(fleetsSimulateCommand(env), fleetsTraceCommand(env))
	parent(c)
	return c
}
