//go:build unix

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Account is the user of the steps.
type Account struct {
	Other  bool // not the user of this process
	UID    uint32
	GID    uint32
	groups []uint32
	Name   string
	Home   string
}

// credential returns the credential with which a process runs as the account, nil
// for none.
func (a Account) credential() *syscall.Credential {
	if !a.Other {
		return nil
	}
	return &syscall.Credential{Uid: a.UID, Gid: a.GID, Groups: a.groups}
}

// Own makes the account the owner of an open file, or directory. It uses the
// descriptor: the account may have replaced the path meanwhile.
func (a Account) Own(f *os.File) error {
	if !a.Other {
		return nil
	}
	if err := f.Chown(int(a.UID), int(a.GID)); err != nil {
		return fmt.Errorf("change the owner of a file: %w", err)
	}
	return nil
}

// OpenDir opens a directory that is not behind a symbolic link.
func OpenDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// OwnedByRoot reports whether a file belongs to root.
func OwnedByRoot(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0
}

// OpenRegular opens a regular file that is not behind a symbolic link. It never
// waits, as opening a pipe would.
func OpenRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) { // a link; a socket
		return nil, ErrNotRegular
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// MakeIn creates a directory of the account in an existing one. It uses
// descriptors: the account may write to the outer directory, and move files there.
// A directory that exists already stays unchanged.
func (a Account) MakeIn(above, name string) error {
	outer, err := os.OpenFile(above, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = outer.Close() }()
	at := int(outer.Fd())
	const mode = 0o755
	err = unix.Mkdirat(at, name, mode)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: filepath.Join(above, name), Err: err}
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Join(above, name), Err: err}
	}
	created := os.NewFile(uintptr(fd), name)
	defer func() { _ = created.Close() }()
	if _, err := created.Readdirnames(1); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s was replaced while it was created", filepath.Join(above, name))
	}
	return a.Own(created)
}

// LookUpAccount resolves "user", "user:group" and the same with numbers, as
// container engines do: "" is the user of this process; a number need not exist
// here, and has group 0 by default; the supplementary groups are those of the
// user's name, unless a group is given.
func LookUpAccount(text string) (Account, error) {
	if text == "" {
		a := Account{Home: "/"}
		if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
			a.Name, a.Home = u.Username, u.HomeDir
		}
		return a, nil
	}
	name, group, hasGroup := strings.Cut(text, ":")
	a := Account{Other: true, Name: name, Home: "/"}
	u, err := findUser(name)
	if err != nil {
		return a, err
	}
	if u != nil {
		a.Name, a.Home = u.Username, u.HomeDir
		a.UID, a.GID = number(u.Uid), number(u.Gid)
	} else {
		a.UID = number(name)
	}
	switch {
	case hasGroup:
		if a.GID, err = findGroup(group); err != nil {
			return a, err
		}
	case u != nil:
		ids, err := u.GroupIds()
		if err != nil {
			return a, fmt.Errorf("look up the groups of user %q: %w", a.Name, err)
		}
		for _, id := range ids {
			a.groups = append(a.groups, number(id))
		}
	}
	if os.Geteuid() != 0 && int(a.UID) == os.Geteuid() && int(a.GID) == os.Getegid() {
		a.Other = false // and could not set its groups
	}
	return a, nil
}

// findUser returns nil for a number without a user.
func findUser(name string) (*user.User, error) {
	if u, err := user.Lookup(name); err == nil {
		return u, nil
	}
	if _, err := strconv.ParseUint(name, 10, 31); err != nil {
		return nil, fmt.Errorf("user %q does not exist in this environment", name)
	}
	u, err := user.LookupId(name)
	var unknown user.UnknownUserIdError
	if errors.As(err, &unknown) || errors.Is(err, os.ErrNotExist) {
		return nil, nil // no such user, which is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("look up user %q: %w", name, err)
	}
	return u, nil
}

func findGroup(name string) (uint32, error) {
	if g, err := user.LookupGroup(name); err == nil {
		return number(g.Gid), nil
	}
	id, err := strconv.ParseUint(name, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("group %q does not exist in this environment", name)
	}
	return uint32(id), nil
}

func number(id string) uint32 {
	n, _ := strconv.ParseUint(id, 10, 32) // came from a number, or was checked
	return uint32(n)
}

func executable(path string) (string, bool) {
	info, err := os.Stat(path)
	return path, err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}
