//go:build unix

package shim

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// account is who runs the steps.
type account struct {
	other  bool // not the user of this process
	uid    uint32
	gid    uint32
	groups []uint32
	name   string
	home   string
}

// credential returns what a process needs to become the account, nil for none.
func (a account) credential() *syscall.Credential {
	if !a.other {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
}

// own makes the file the account's.
func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	if err := os.Lchown(path, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("giving a file to the user: %w", err)
	}
	return nil
}

// lookUpAccount resolves "user", "user:group" and the same with numbers, as
// container engines do: "" is the user of this process; a number need not be
// known here, and belongs to group 0 unless told; the further groups are those
// of the user's name, unless the group is told.
func lookUpAccount(text string) (account, error) {
	if text == "" {
		a := account{home: "/"}
		if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
			a.name, a.home = u.Username, u.HomeDir
		}
		return a, nil
	}
	name, group, hasGroup := strings.Cut(text, ":")
	a := account{other: true, name: name, home: "/"}
	u, err := findUser(name)
	if err != nil {
		return a, err
	}
	if u != nil {
		a.name, a.home = u.Username, u.HomeDir
		a.uid, a.gid = number(u.Uid), number(u.Gid)
	} else {
		a.uid = number(name)
	}
	switch {
	case hasGroup:
		if a.gid, err = findGroup(group); err != nil {
			return a, err
		}
	case u != nil:
		ids, err := u.GroupIds()
		if err != nil {
			return a, fmt.Errorf("looking up the groups of user %q: %w", a.name, err)
		}
		for _, id := range ids {
			a.groups = append(a.groups, number(id))
		}
	}
	if os.Geteuid() != 0 && int(a.uid) == os.Geteuid() && int(a.gid) == os.Getegid() {
		a.other = false // and could not set its groups
	}
	return a, nil
}

// findUser returns nil for a number that is nobody's.
func findUser(name string) (*user.User, error) {
	if u, err := user.Lookup(name); err == nil {
		return u, nil
	}
	if _, err := strconv.ParseUint(name, 10, 31); err != nil {
		return nil, fmt.Errorf("user %q is not known in this environment", name)
	}
	u, err := user.LookupId(name)
	var unknown user.UnknownUserIdError
	if errors.As(err, &unknown) || errors.Is(err, os.ErrNotExist) {
		return nil, nil // nobody, and no fault
	}
	if err != nil {
		return nil, fmt.Errorf("looking up user %q: %w", name, err)
	}
	return u, nil
}

func findGroup(name string) (uint32, error) {
	if g, err := user.LookupGroup(name); err == nil {
		return number(g.Gid), nil
	}
	id, err := strconv.ParseUint(name, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("group %q is not known in this environment", name)
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
