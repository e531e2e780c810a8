package testenv

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sharedLibrary matches the paths in the output of ldd.
var sharedLibrary = regexp.MustCompile(`(/\S+) \(0x`)

// HostLayer returns files and directories of this host as a tar archive, at the same
// paths, with the shared libraries of the programs among them. Symbolic links are
// followed. Over busybox it makes images with the host's programs, without a registry.
func HostLayer(paths ...string) ([]byte, error) {
	files := make(map[string]bool)
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			files[name] = true
			if info, err := os.Stat(name); err == nil && (info.Mode()&0o111 != 0 || strings.HasSuffix(name, ".so")) {
				for _, library := range libraries(name) {
					files[library] = true
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list the files of the host: %w", err)
		}
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name := range files {
		if err := addHostFile(w, name); err != nil {
			return nil, fmt.Errorf("pack the files of the host: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the files of the host: %w", err)
	}
	return archive.Bytes(), nil
}

// libraries returns the shared libraries of a program; none for a script or a static
// program.
func libraries(program string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, _ := exec.CommandContext(ctx, "ldd", program).Output()
	var found []string
	for _, match := range sharedLibrary.FindAllStringSubmatch(string(out), -1) {
		found = append(found, match[1])
	}
	return found
}

func addHostFile(w *tar.Writer, name string) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: int64(info.Mode().Perm()), Size: int64(len(content)),
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

// GitPath is PATH in images with the programs of GitFiles.
const GitPath = "/usr/local/bin:/usr/bin:/bin"

// GitFiles returns the programs of the host's git that a client and an HTTP server need;
// the error says that there is no git.
func GitFiles() ([]string, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("find git: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, git, "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("find the programs of git: %w", err)
	}
	files := []string{git}
	for _, name := range []string{
		"git-http-backend", "git-remote-http", "git-remote-https", "git-submodule", "git-sh-setup", "git-sh-i18n",
		"git-upload-pack", "git-receive-pack",
	} {
		files = append(files, filepath.Join(strings.TrimSpace(string(out)), name))
	}
	return slices.Clip(files), nil
}
