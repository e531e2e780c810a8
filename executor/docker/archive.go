package docker

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"

	"github.com/drover-run/drover/executor/shim"
)

// archiveFile is a file that the driver puts into a container.
type archiveFile struct {
	name    string
	mode    int64
	content []byte
}

// archiveOf packs files, owned by root, in the order in which they are to be
// written.
func archiveOf(files ...archiveFile) (io.Reader, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack files: %w", err)
	}
	return &buffer, nil
}

// stopRequestArchive packs the files that pass a stop request to the shim.
func stopRequestArchive(r shim.StopRequest) (io.Reader, error) {
	content, names, err := r.Files()
	if err != nil {
		return nil, err
	}
	files := make([]archiveFile, 0, len(names))
	for _, name := range names {
		files = append(files, archiveFile{name, 0o600, content})
	}
	return archiveOf(files...)
}
