package main

import (
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/cmd/internal/executorrole"
	"github.com/drover-run/drover/cmd/internal/process"
)

// processCommands are the commands that run processes, and the commands that
// maintain their keys, tokens and configuration.
func processCommands(env session.Env) []*cobra.Command {
	dev, start := devCommand(), startCommand()
	dev.GroupID, start.GroupID = cli.GroupProcess, cli.GroupProcess
	dev.RunE = process.Interruptible(dev.RunE)
	return []*cobra.Command{dev, start, tokensCommand(env), keysCommand(), recordsCommand(), process.HealthCommand(), process.ConfigCommand()}
}

// startCommand starts one of the processes of an installation.
func startCommand() *cobra.Command {
	return process.StartCommand("gateway, control, executor, fleet-worker, relay or temporal",
		"  drover start gateway --config /etc/drover.yaml\n  drover start executor --config /etc/drover/executor.yaml",
		gatewayCommand(), controlCommand(), executorrole.Command(), fleetWorkerCommand(), relayCommand(), temporalCommand())
}
