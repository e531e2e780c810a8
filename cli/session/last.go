package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/run"
)

// LastRun is the word that stands for the run that this user submitted last to the
// selected gateway.
const LastRun = "last"

// lastRunsFile is in the directory of the context file. It has the id of the last
// run for each gateway.
const lastRunsFile = "last-runs.json"

// RememberRun records the run that LastRun stands for from now on. A user without a
// directory for it is no error: such users give ids.
func (c *Connection) RememberRun(id string) error {
	path := c.lastRunsPath()
	server, err := c.Address()
	if path == "" || err != nil {
		return err
	}
	all, err := readLastRuns(path)
	if err != nil {
		all = map[string]string{} // a damaged file is replaced
	}
	all[serverKey(server)] = id
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("record the last run: %w", err)
	}
	if err = durable.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		err = durable.WriteFile(path, data)
	}
	if err != nil {
		return fmt.Errorf("record the last run: %w", err)
	}
	return nil
}

// AcceptLast makes commands take LastRun in place of the id of a run, which is their
// first argument.
func (c *Connection) AcceptLast(cmds ...*cobra.Command) {
	for _, cmd := range cmds {
		execute := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == LastRun {
				id, err := c.lastRun()
				if err != nil {
					return err
				}
				args = append([]string{id}, args[1:]...)
			}
			return execute(cmd, args)
		}
	}
}

func (c *Connection) lastRun() (string, error) {
	server, err := c.Address()
	if err != nil {
		return "", err
	}
	all := map[string]string{}
	if path := c.lastRunsPath(); path != "" {
		if all, err = readLastRuns(path); err != nil {
			return "", err
		}
	}
	id := all[serverKey(server)]
	if id == "" {
		return "", run.Errorf(run.CodeInvalid, "%q: no run was submitted to %s from here; give the id of a run: drover ps", LastRun, server)
	}
	return id, nil
}

// lastRunsPath returns "" for a user without a directory for it.
func (c *Connection) lastRunsPath() string {
	path := ContextPath(c.env)
	if path == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(path), lastRunsFile)
}

func readLastRuns(path string) (map[string]string, error) {
	all := map[string]string{}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return nil, run.Errorf(run.CodeInvalid, "read the last runs %s: %w", path, err)
	}
	return all, nil
}

func serverKey(server string) string { return strings.TrimRight(server, "/") }
