package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/cli"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/controller"
	"github.com/drover-run/drover/fleeting/fleetingtest"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/logging"
	"github.com/drover-run/drover/internal/yamlfault"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// addPluginCommands adds the commands for plugins, which need no gateway, to the
// commands of fleets.
func addPluginCommands(root *cobra.Command) *cobra.Command {
	var fleets *cobra.Command
	for _, c := range root.Commands() {
		if c.Name() == "fleets" {
			fleets = c
		}
	}
	if fleets == nil {
		fleets = &cobra.Command{Use: "fleets", Short: "Show fleets and their plugins", GroupID: cli.GroupClient, RunE: showHelp}
		root.AddCommand(fleets)
	}
	plugin := &cobra.Command{
		Use: "plugin", Short: "Check fleeting plugins", Example: "  drover fleets plugin check aws", RunE: showHelp,
	}
	plugin.AddCommand(pluginCheckCommand())
	fleets.AddCommand(plugin)
	root.AddCommand(pluginGuardCommand())
	return root
}

func showHelp(c *cobra.Command, _ []string) error {
	return c.Help()
}

// pluginGuardCommand is the process under which a plugin host runs a plugin.
func pluginGuardCommand() *cobra.Command {
	return &cobra.Command{
		Use: fleeting.GuardCommand + " DIR GRACE PLUGIN [ARG...]", Hidden: true, DisableFlagParsing: true,
		Short: "Run a plugin, and end it when its host ends",
		RunE: func(c *cobra.Command, args []string) error {
			os.Exit(fleeting.Guard(c.Context(), args, os.Stdout, os.Stderr))
			return nil
		},
	}
}

func pluginCheckCommand() *cobra.Command {
	var o fleeting.Options
	var file, output string
	var verbose, exercise bool
	defaults := config.Default().Fleet
	c := &cobra.Command{
		Use:   "check PLUGIN",
		Short: "Print the version and the capabilities of a fleeting plugin",
		Long: `Launches a plugin, given by its path or by its name on the plugin path, and prints its version and the calls that it serves. With
--config it is also initialised and lists its instances, which may leave traces in the cloud, such as an uploaded key;
its capabilities are known only then. Nothing is created or deleted, except with --exercise, which tests the plugin: it
creates two instances, kills the plugin's process several times, names instances that do not exist, and deletes the two.
Other instances are not changed.`,
		Example: "  drover fleets plugin check ./fleeting-plugin-static\n  drover fleets plugin check docker --config docker.yaml --exercise",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Plugin, o.Logger = args[0], slog.New(slog.DiscardHandler)
			if verbose {
				o.Logger = logging.New(c.ErrOrStderr(), "text", slog.LevelDebug)
			}
			if file != "" {
				if err := readPluginConfig(file, &o); err != nil {
					return err
				}
			}
			if exercise && file == "" {
				return command.Invalid("--exercise needs --config, which names the group to create instances in")
			}
			if exercise {
				return exercisePlugin(c.Context(), c.OutOrStdout(), o, output == "json")
			}
			return checkPlugin(c.Context(), c.OutOrStdout(), o, file != "", output == "json")
		},
	}
	c.Flags().StringSliceVar(&o.Path, "plugin-path", defaults.PluginPath, "directories to look plugin names up in, before PATH")
	c.Flags().StringSliceVar(&o.PassEnv, "plugin-env", nil, "variables to pass to the plugin, in addition to those that every program needs; NAME* for all with this prefix")
	c.Flags().StringVar(&file, "config", "", "YAML or JSON file with the plugin's configuration; its key connector_config, if any, is the connector's")
	c.Flags().BoolVar(&exercise, "exercise", false, "test the plugin with two instances, which are deleted again; needs --config")
	c.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show what the plugin logs")
	return c
}

// readPluginConfig reads the configuration of a plugin. If the file has the keys
// of a fleet, it separates the configuration of the connector.
func readPluginConfig(path string, o *fleeting.Options) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return run.Errorf(run.CodeInvalid, "read the plugin's configuration: %w", err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return run.Errorf(run.CodeInvalid, "read the plugin's configuration %s: %w", path, yamlfault.Error(text, err, values))
	}
	if connector := values["connector_config"]; connector != nil {
		if o.Connector, err = readConnector(path, connector); err != nil {
			return err
		}
	}
	if inner := values["plugin_config"]; inner != nil {
		of, ok := inner.(map[string]any)
		if !ok {
			return run.Errorf(run.CodeInvalid, "%s: plugin_config: it must be a map", path)
		}
		values = of
	}
	delete(values, "connector_config")
	if o.Config, err = json.Marshal(values); err != nil {
		return run.Errorf(run.CodeInvalid, "encode the plugin's configuration %s: %w", path, err)
	}
	return nil
}

// readConnector reads the settings of the connector, which are those of a fleet.
func readConnector(path string, settings any) (fleeting.Connector, error) {
	text, err := json.Marshal(map[string]any{"connector_config": settings})
	if err != nil {
		return fleeting.Connector{}, run.Errorf(run.CodeInvalid, "encode connector_config of %s: %w", path, err)
	}
	fleet, err := spec.ReadFleet(text, spec.FormatJSON)
	if faulty, ok := errors.AsType[*run.Error](err); ok {
		for i := range faulty.Faults {
			faulty.Faults[i].Line = 0 // of the text, and not of the file
		}
		return fleeting.Connector{}, command.FaultyFile(path, faulty)
	}
	if err != nil {
		return fleeting.Connector{}, err
	}
	connector, err := controller.ConnectorOf(fleet.ConnectorConfig)
	if err != nil {
		return connector, run.Errorf(run.CodeInvalid, "%s: %w", path, err)
	}
	return connector, nil
}

// checkError is the error of a check: a refused configuration is invalid input.
func checkError(err error) error {
	if refused, ok := errors.AsType[*fleeting.CallError](err); ok && refused.RefusesConfig() {
		return run.Errorf(run.CodeInvalid, "%w", err)
	}
	return err
}

func checkPlugin(ctx context.Context, out io.Writer, o fleeting.Options, initialise, asJSON bool) error {
	report, err := fleeting.Check(ctx, o, initialise)
	if err != nil {
		return checkError(err)
	}
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(t, "%s\t%s\n", name, value)
		}
	}
	row("path", report.Path)
	row("digest", "sha256:"+report.Digest)
	row("build", strings.ReplaceAll(report.Build, "\n", "\n\t"))
	row("calls", cmp.Or(strings.Join(report.Calls, " "), "not reported"))
	row("lacks", strings.Join(report.Missing, " "))
	if report.Info != nil {
		row("group", report.Info.ID)
		row("version", report.Info.Version)
		row("max size", fmt.Sprint(report.Info.MaxSize))
		row("capabilities", cmp.Or(strings.Join(report.Capabilities, " "), "none"))
		row("instances", fmt.Sprint(len(report.Instances)))
		for _, i := range report.Instances {
			_, _ = fmt.Fprintf(t, "\t%s %s\n", i.ID, i.State)
		}
	}
	return t.Flush()
}

// exercisePlugin runs the plugin's conformance test and prints each step when it
// ends.
func exercisePlugin(ctx context.Context, out io.Writer, o fleeting.Options, asJSON bool) error {
	options := fleetingtest.Options{Plugin: o}
	if !asJSON {
		options.OnStep = func(s fleetingtest.Step) {
			_, _ = fmt.Fprintf(out, "%-8s %6.1fs  %s\n", s.Outcome, s.Took.Seconds(), s.Name)
			if s.Detail != "" && s.Outcome != fleetingtest.OK {
				_, _ = fmt.Fprintf(out, "%18s%s\n", "", s.Detail)
			}
		}
	}
	steps, err := fleetingtest.Check(ctx, options)
	err = checkError(err)
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = errors.Join(encoder.Encode(steps), err)
	}
	return err
}
