// Package editor lets the user change a text in an editor.
package editor

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/drover-run/drover/cli/session"
)

// ErrUnchanged says that the user saved no change, or an empty file.
var ErrUnchanged = errors.New("the file is unchanged or empty")

// File is a text that was changed, in a file of its own.
type File struct {
	Path string
	Text []byte
}

// Edit opens a text in the editor that VISUAL or EDITOR names, or in vi. It returns
// ErrUnchanged, and leaves no file, if the user saved no change or only comments.
// Else the file stays, for the case that it is refused, until the caller removes it.
func Edit(ctx context.Context, env session.Env, name string, text []byte) (*File, error) {
	dir, err := os.MkdirTemp("", "drover-edit-") // only this user can read it
	if err != nil {
		return nil, fmt.Errorf("create a file to edit: %w", err)
	}
	f := &File{Path: filepath.Join(dir, name)}
	if err := f.edit(ctx, env, text); err != nil {
		f.Remove()
		return nil, err
	}
	return f, nil
}

// Remove removes the file.
func (f *File) Remove() { _ = os.RemoveAll(filepath.Dir(f.Path)) }

func (f *File) edit(ctx context.Context, env session.Env, text []byte) error {
	if err := os.WriteFile(f.Path, text, 0o600); err != nil {
		return fmt.Errorf("create a file to edit: %w", err)
	}
	editor := cmp.Or(env.Variable("VISUAL"), env.Variable("EDITOR"), "vi")
	// The variables hold a command with arguments, as for git and kubectl.
	c := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", f.Path)
	c.Stdin, c.Stdout, c.Stderr = env.Stdin, env.Stdout, env.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("run editor %q: %w", editor, err)
	}
	var err error
	if f.Text, err = os.ReadFile(f.Path); err != nil {
		return fmt.Errorf("read the edited file: %w", err)
	}
	if bytes.Equal(f.Text, text) || empty(f.Text) {
		return ErrUnchanged
	}
	return nil
}

// empty reports whether a text has only comments and empty lines.
func empty(text []byte) bool {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}
