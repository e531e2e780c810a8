package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

// renamedError is the usage error of a command under its former name.
type renamedError struct{ old, now string }

// Error implements error.
func (e *renamedError) Error() string { return fmt.Sprintf("%s is now drover %s", e.old, e.now) }

// RenamedError returns the usage error of a command under its former name: now is
// the command that replaces it, without the program.
func RenamedError(old, now string) error { return UsageError(&renamedError{old, now}) }

// Renamed returns a hidden command for a former name, which fails and names the
// command that replaces it: now, without the program. For a name that had
// subcommands, subcommands has pairs of a former subcommand and its replacement.
func Renamed(old, now string, subcommands ...string) *cobra.Command {
	return &cobra.Command{
		Use: old, Short: "Renamed to drover " + now, Hidden: true, DisableFlagParsing: true,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			for i := 0; i+1 < len(subcommands) && len(args) > 0; i += 2 {
				if args[0] == subcommands[i] {
					return RenamedError(c.CommandPath()+" "+args[0], subcommands[i+1])
				}
			}
			return RenamedError(c.CommandPath(), now)
		},
	}
}
