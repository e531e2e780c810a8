package process

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/internal/config"
)

// Settings maps flags of a command to settings.
type Settings struct {
	file string
	keys map[string]string // key of the setting, by flag
	list map[string]*[]string
}

// Flags adds --config and the named flags to a command. A flag overrides a
// setting of the file and of the environment.
func Flags(cmd *cobra.Command, keys map[string]string, usage map[string]string) *Settings {
	f := &Settings{keys: keys, list: map[string]*[]string{}}
	cmd.Flags().StringVar(&f.file, "config", "", "YAML file with the configuration; the environment (DROVER_GATEWAY__LISTEN and so on) and flags override it")
	defaults := config.Default()
	for flag, key := range keys {
		value := defaults.Value(key)
		if flag == "executor" {
			var values []string
			f.list[flag] = &values
			cmd.Flags().StringSliceVar(&values, flag, nil, usage[flag])
			continue
		}
		cmd.Flags().String(flag, value, usage[flag])
	}
	return f
}

// Load reads the configuration of a command and validates it for the given parts.
func (f *Settings) Load(cmd *cobra.Command, parts ...config.Part) (config.Config, error) {
	flags := map[string]string{}
	for flag, key := range f.keys {
		if !cmd.Flags().Changed(flag) {
			continue
		}
		if values, ok := f.list[flag]; ok {
			flags[key] = strings.Join(*values, ",")
			continue
		}
		flags[key] = cmd.Flags().Lookup(flag).Value.String()
	}
	cfg, err := config.Load(config.Source{File: f.file, Environ: os.Environ(), Flags: flags})
	if err != nil {
		return config.Config{}, command.UsageError(err)
	}
	if err := cfg.Validate(parts...); err != nil {
		return config.Config{}, command.UsageError(err)
	}
	return cfg, nil
}
