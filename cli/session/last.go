package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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

// LastRun is the word that stands for the run that was submitted last from here to the
// selected gateway with the same token.
const LastRun = "last"

// lastRunsFile is in the directory of the context file. It has the id of the last
// run for each gateway and token.
const lastRunsFile = "last-runs.json"

// maxLastRuns bounds the runs in that file. The oldest ones are removed first: pipelines
// may use each token only once.
const maxLastRuns = 100

// RememberRun records the run that LastRun stands for from now on. A user without a
// directory for it is no error: such users give ids.
func (c *Connection) RememberRun(id string) error {
	path := c.lastRunsPath()
	if path == "" {
		return nil
	}
	_, key, err := c.lastRunKey()
	if err != nil {
		return err
	}
	all, err := readLastRuns(path)
	if err != nil || all == nil {
		all = map[string]string{} // a damaged file is replaced
	}
	delete(all, key)
	for len(all) >= maxLastRuns {
		oldest := ""
		for k, r := range all {
			if oldest == "" || r < all[oldest] { // ids begin with the time of creation
				oldest = k
			}
		}
		delete(all, oldest)
	}
	all[key] = id
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
	server, key, err := c.lastRunKey()
	if err != nil {
		return "", err
	}
	all := map[string]string{}
	if path := c.lastRunsPath(); path != "" {
		if all, err = readLastRuns(path); err != nil {
			return "", err
		}
	}
	id := all[key]
	if id == "" {
		return "", run.Errorf(run.CodeInvalid, "%q: no run was submitted to %s with this token from here; give the id of a run: drover ps", LastRun, server)
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

// lastRunKey returns the selected gateway, and the key of its last run with the
// selected token. The key of a login is that of its user, the key of another
// token of a context that of its file, since the token in it may be replaced, and the key
// of any other token a hash of it.
func (c *Connection) lastRunKey() (server, key string, err error) {
	known, err := c.selected()
	if err != nil {
		return "", "", err
	}
	server = c.address(known)
	token, file, err := c.readToken(server, known)
	if err != nil {
		return "", "", err
	}
	key = serverKey(server)
	if token == "" {
		return server, key, nil
	}
	switch {
	case file != "" && isLogin(token):
		token = cmp.Or(userOf(token), file)
	case file != "" && c.tokenFile == "":
		token = file
	}
	sum := sha256.Sum256([]byte(token))
	return server, key + "#" + hex.EncodeToString(sum[:8]), nil
}

func serverKey(server string) string { return strings.TrimRight(server, "/") }
