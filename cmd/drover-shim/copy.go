package main

import (
	"context"
	"fmt"
	"io"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// unpack writes a tar stream from stdin below a directory.
func unpack(ctx context.Context, dir string, stdin io.Reader, stdout, stderr io.Writer) int {
	if _, err := archive.UnpackTar(ctx, dir, stdin, archive.Unpacking{}); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return shim.ExitFiles
	}
	_, _ = io.WriteString(stdout, shim.Done)
	return shim.ExitDone
}

// pack prints a file or a tree as a tar stream.
func pack(ctx context.Context, path string, stdout, stderr io.Writer) int {
	content, err := archive.Tree(ctx, path)
	if err == nil {
		_, err = io.Copy(stdout, content)
		_ = content.Close()
	}
	switch {
	case run.CodeOf(err) == run.CodeNotFound:
		_, _ = fmt.Fprintln(stderr, err)
		return shim.ExitNoFile
	case err != nil:
		_, _ = fmt.Fprintln(stderr, err)
		return shim.ExitFiles
	}
	return shim.ExitDone
}
