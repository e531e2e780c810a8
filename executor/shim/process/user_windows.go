package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Account is the user of the steps: always the user of this process.
type Account struct {
	Other      bool
	Name, Home string
}

// Own does nothing: the file belongs to the account already.
func (Account) Own(*os.File) error { return nil }

// MakeIn creates a directory in an existing one. A directory that exists already stays
// unchanged.
func (Account) MakeIn(above, name string) error {
	err := os.Mkdir(filepath.Join(above, name), 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// OpenDir opens a directory.
func OpenDir(path string) (*os.File, error) { return os.Open(path) }

// OwnedByRoot reports whether a file belongs to root, which Windows does not have.
func OwnedByRoot(os.FileInfo) bool { return false }

// OpenRegular opens a regular file. Errors: ErrNotRegular.
func OpenRegular(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	return os.Open(path)
}

// LookUpAccount returns the account of this process; no other is supported.
func LookUpAccount(text string) (Account, error) {
	if text != "" {
		return Account{}, errors.New("steps can not run as another user on Windows")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = `C:\`
	}
	return Account{Home: home}, nil
}

func executable(path string) (string, bool) {
	found, err := exec.LookPath(path)
	return found, err == nil
}
