package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/follow"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func runCommand(env session.Env) *cobra.Command {
	var (
		conn      = session.New(env)
		output    render.Format
		watch     = &watcher{env: env}
		following bool
		variables variableFlags
		change    specChange
		key       string
		helping   bool
	)
	c := &cobra.Command{
		Use:   "run FILE",
		Short: "Submit a run",
		Long: `Submits the specification in FILE, YAML or JSON ("-" is standard input), and prints the id of the run.

With --follow it shows the progress of the run until it has ended: on a terminal as a table with the log below, else as lines.
The exit code is then the outcome of the run. Ctrl-C ends the command and not the run.

--help-inputs shows the inputs of the file, which --input sets. Inputs are shown to all who can read the run: pass secrets with
--secret.`,
		Example: `  drover run examples/hello.yaml --follow
  drover run build.yaml --env COMMIT=4f2a --env-file build.env
  drover run deploy.yaml --help-inputs
  drover run deploy.yaml -i environment=production -i dry_run=false
  drover run deploy.yaml --secret TOKEN --secret KEY=@key.pem
  drover run nightly.yaml --idempotency-key nightly-2026-01-31
  generate-spec | drover run - -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeSpecs,
		RunE: func(c *cobra.Command, args []string) error {
			file, err := readSpecFile(env, args[0])
			if err != nil {
				return err
			}
			if helping {
				return printInputs(env, file, output)
			}
			if change.inputs, err = variables.inputs.read(); err != nil {
				return err
			}
			if change.variables, err = variables.readVariables(env); err != nil {
				return err
			}
			if change.secrets, err = variables.readSecrets(env); err != nil {
				return err
			}
			body, media := file.data, file.media()
			if !change.empty() {
				if body, err = file.change(change); err != nil {
					return err
				}
				media = mediaJSON
			}
			client, err := conn.Open()
			if err != nil {
				return err
			}
			created, err := client.Create(c.Context(), body, media, key)
			if errors.Is(err, remote.ErrUncertain) && key != "" {
				return run.Errorf(run.CodeUnavailable, "%w; submit the run again with the same --idempotency-key", err)
			}
			if errors.Is(err, remote.ErrUncertain) {
				return run.Errorf(run.CodeUnavailable, "%w; check whether the run was submitted with drover runs list", err)
			}
			if err != nil {
				return file.refused(err)
			}
			remember(env, conn, created.Value.ID)
			if following {
				return watch.follow(c.Context(), client, created.Value, output)
			}
			if output == render.AsJSON {
				return render.JSON(env.Stdout, created.Raw)
			}
			_, err = fmt.Fprintln(env.Stdout, created.Value.ID)
			return err
		},
	}
	flags := c.Flags()
	flags.BoolVarP(&following, "follow", "f", false, "show the run until it has ended")
	variables.addTo(c)
	flags.BoolVar(&helping, "help-inputs", false, "show the inputs of the file, and submit nothing")
	flags.StringVar(&key, "idempotency-key", "", "creates one run for all submissions with this key in 24 hours")
	addToken(c, &change.token)
	watch.addTo(c)
	conn.AddTo(c)
	output.AddTo(c, render.AsTable)
	return c
}

// remember records a submitted run as the last one. The run exists, so a fault is
// only a warning.
func remember(env session.Env, conn *session.Connection, id string) {
	if err := conn.RememberRun(id); err != nil {
		_, _ = fmt.Fprintf(env.Stderr, "warning: %q will not be this run: %v\n", session.LastRun, err)
	}
}

// watcher shows the progress of a run.
type watcher struct {
	env   session.Env
	plain bool
}

func (w *watcher) addTo(c *cobra.Command) {
	c.Flags().BoolVar(&w.plain, "plain", false, "print lines, also on a terminal")
}

// follow shows a run until it has ended, and returns an error for its outcome.
func (w *watcher) follow(ctx context.Context, client *remote.Client, r api.Run, output render.Format) error {
	if r.Tasks == nil {
		answer, err := client.AwaitRun(ctx, r.ID)
		if err != nil {
			return err
		}
		r = answer.Value
	}
	screen := w.screen(output)
	ended, err := follow.Follow(ctx, follow.Options{Client: client, Run: r, Screen: screen})
	switch {
	case errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintf(w.env.Stderr, "Run %s continues. To follow it again: drover runs get %s --follow\nTo stop it: drover runs stop %s\n", r.ID, r.ID, r.ID)
		return command.Exit(command.ExitOther)
	case errors.Is(err, follow.ErrUnavailable):
		return run.Errorf(run.CodeUnavailable, "%w; run %s continues: drover runs get %s --follow", err, r.ID, r.ID)
	case err != nil:
		return err
	}
	if output == render.AsJSON {
		if err := render.JSON(w.env.Stdout, ended.Raw); err != nil {
			return err
		}
	}
	return w.outcome(ended.Value)
}

// outcome prints the next steps after a failed run, and returns the error that
// sets the exit code.
func (w *watcher) outcome(r api.Run) error {
	for _, hint := range failedHints(r, true) {
		_, _ = fmt.Fprintln(w.env.Stderr, hint)
	}
	return outcome(r)
}

// outcome returns the error that sets the exit code for the outcome of a run.
func outcome(r api.Run) error {
	if code := command.ExitOfRun(run.Phase(r.Phase), run.Result(r.Result)); code != command.ExitOK {
		return command.Exit(code)
	}
	return nil
}

// screen returns where a run is shown. If standard output has JSON, that is
// standard error, as lines.
func (w *watcher) screen(output render.Format) follow.Screen {
	s := follow.Screen{
		Writer: w.env.Stdout, Size: w.env.TerminalSize, Now: w.env.Now, Location: w.env.Location, FormatDuration: render.Duration,
		Terminal: w.env.IsTerminal(), Unicode: w.unicode(),
	}
	if output == render.AsJSON {
		s.Writer = w.env.Stderr
		s.Terminal = true // standard error may be a terminal
		return s
	}
	dumb := w.env.Variable("TERM") == "dumb"
	s.Live = s.Terminal && !w.plain && !dumb
	s.Colour = s.Terminal && !dumb && w.env.Variable("NO_COLOR") == ""
	return s
}

// unicode reports whether the locale uses UTF-8. It assumes so if no locale is
// set.
func (w *watcher) unicode() bool {
	locale := cmp.Or(w.env.Variable("LC_ALL"), w.env.Variable("LC_CTYPE"), w.env.Variable("LANG"))
	locale = strings.ToLower(strings.ReplaceAll(locale, "-", ""))
	return locale == "" || strings.Contains(locale, "utf8")
}

func completeSpecs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// formatOf returns the format of a specification by its file name, or else by its
// first character.
func formatOf(name string, data []byte) spec.Format {
	if f, ok := spec.Detect(name); ok {
		return f
	}
	if strings.HasPrefix(strings.TrimSpace(string(data[:min(len(data), 1024)])), "{") {
		return spec.FormatJSON
	}
	return spec.FormatYAML
}
