// Command images writes the images that tests in a cluster need, as archives for
// `docker load` and `ctr images import`. It builds them from the host's static
// busybox, its git and Drover's own binaries, without a registry or a daemon.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/internal/testenv"
)

func main() {
	out := flag.String("out", "", "directory for busybox.tar, git.tar and drover.tar (required)")
	bin := flag.String("bin", "bin", "directory with drover and drover-shim")
	flag.Parse()
	if err := write(*out, *bin); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func write(out, bin string) error {
	if out == "" {
		return errors.New("-out is required")
	}
	if err := os.MkdirAll(out, 0o700); err != nil {
		return err
	}
	busybox, err := testenv.BusyboxLayer()
	if err != nil {
		return err
	}
	// The process of a pod sandbox only has to keep running. Both images share one
	// layer.
	if err := writeArchive(filepath.Join(out, "busybox.tar"), [][]byte{busybox},
		image{Name: testenv.KubernetesImage, Path: "/bin", Command: []string{"/bin/sh"}},
		image{Name: testenv.KubernetesPauseImage, Path: "/bin", Command: []string{"/bin/sleep", "2147483647"}},
	); err != nil {
		return err
	}
	git, err := gitLayer()
	if err != nil {
		return err
	}
	if err := writeArchive(filepath.Join(out, "git.tar"), [][]byte{busybox, git},
		image{Name: testenv.KubernetesGitImage, Path: testenv.GitPath, Command: []string{"/bin/sh"}},
	); err != nil {
		return err
	}
	drover, err := droverLayer(bin)
	if err != nil {
		return err
	}
	return writeArchive(filepath.Join(out, "drover.tar"), [][]byte{drover},
		image{Name: testenv.KubernetesDroverImage, Path: "/bin", Entrypoint: []string{"/bin/drover"}, Environment: []string{"USER=drover", "HOME=/"}})
}

// gitLayer returns the programs of the host's git.
func gitLayer() ([]byte, error) {
	files, err := testenv.GitFiles()
	if err != nil {
		return nil, err
	}
	return testenv.HostLayer(files...)
}
