package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// image is the configuration of one image in an archive.
type image struct {
	Name        string
	Path        string
	Environment []string
	Entrypoint  []string
	Command     []string
}

// manifest is an element of an archive's manifest.json.
type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// writeArchive writes images that share all their layers, in the form of `docker
// save`.
func writeArchive(path string, layers [][]byte, images ...image) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	var names []string
	var digests []digest.Digest
	for _, layer := range layers {
		layerName := name(layer) + ".tar"
		if err := add(w, layerName, 0o644, layer); err != nil {
			return err
		}
		names, digests = append(names, layerName), append(digests, digest.FromBytes(layer))
	}
	var manifests []manifest
	for _, i := range images {
		config, err := json.Marshal(v1.Image{
			Platform: v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
			Config:   v1.ImageConfig{Env: append([]string{"PATH=" + i.Path}, i.Environment...), Entrypoint: i.Entrypoint, Cmd: i.Command},
			RootFS:   v1.RootFS{Type: "layers", DiffIDs: digests},
		})
		if err != nil {
			return err
		}
		configName := name(config) + ".json"
		if err := add(w, configName, 0o644, config); err != nil {
			return err
		}
		manifests = append(manifests, manifest{Config: configName, RepoTags: []string{i.Name}, Layers: names})
	}
	content, err := json.Marshal(manifests)
	if err != nil {
		return err
	}
	if err := add(w, "manifest.json", 0o644, content); err != nil {
		return err
	}
	return w.Close()
}

// droverLayer returns the file system of the Drover image: the binaries that the
// Dockerfile copies.
func droverLayer(bin string) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}); err != nil {
		return nil, err
	}
	for _, program := range []string{"drover", "drover-shim"} {
		content, err := os.ReadFile(filepath.Join(bin, program))
		if err != nil {
			return nil, fmt.Errorf("%w: run make build", err)
		}
		if err := add(w, "bin/"+program, 0o755, content); err != nil {
			return nil, err
		}
	}
	return buffer.Bytes(), w.Close()
}

func add(w *tar.Writer, path string, mode int64, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

func name(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
