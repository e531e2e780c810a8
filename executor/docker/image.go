package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/jsonmessage"
	"github.com/dustin/go-humanize"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/drover-run/drover/run"
)

// pullLogInterval is the interval at which the setup log reports the progress of a
// pull.
const pullLogInterval = 5 * time.Second

// maxPorts limits how many ports of a service are probed.
const maxPorts = 100

// dockerHub is the registry of images whose name contains no registry.
const dockerHub = "docker.io"

// imageInfo holds the properties of an image that a task needs.
type imageInfo struct {
	id          string
	user        string
	workingDir  string
	environment map[string]string
	ports       []string // exposed TCP ports, at most maxPorts
}

// variables returns the variables of the image, with a PATH.
func (i *imageInfo) variables() map[string]string {
	env := maps.Clone(i.environment)
	if _, ok := env["PATH"]; !ok {
		env["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return env
}

// ensureImage makes sure that the image is present, according to the pull
// policy, and returns its properties.
func (d *Driver) ensureImage(ctx context.Context, def run.Definition, name string, platform *ocispec.Platform, log func(string)) (*imageInfo, error) {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return nil, run.Errorf(run.CodeInvalid, "image %q: %w", name, err)
	}
	if def.PullPolicy != run.PullAlways {
		info, err := d.inspectImage(ctx, name, platform)
		switch {
		case err == nil:
			log("using image " + withPlatform(name, platform) + ", which is present")
			return info, nil
		case !cerrdefs.IsNotFound(err):
			return nil, daemonError(err, "find image %s", name)
		case def.PullPolicy == run.PullNever:
			return nil, run.Errorf(run.CodeInvalid, "image %s is not on this host and the pull policy is never", withPlatform(name, platform))
		}
	}
	if err := d.pull(ctx, named, platform, def.Auth, log); err != nil {
		return nil, err
	}
	info, err := d.inspectImage(ctx, name, platform)
	if err != nil {
		return nil, refused(err, "image %s after its pull", name)
	}
	return info, nil
}

// inspectImage returns the properties of an image of the daemon. An image for
// another platform than the requested one counts as not found.
func (d *Driver) inspectImage(ctx context.Context, name string, platform *ocispec.Platform) (*imageInfo, error) {
	var options []client.ImageInspectOption
	if platform != nil && versions.GreaterThanOrEqualTo(d.client.ClientVersion(), "1.49") {
		options = append(options, client.ImageInspectWithPlatform(platform))
	}
	found, err := d.client.ImageInspect(ctx, name, options...)
	if err != nil {
		return nil, err
	}
	if platform != nil && (found.Os != platform.OS || found.Architecture != platform.Architecture ||
		platform.Variant != "" && found.Variant != platform.Variant) {
		return nil, fmt.Errorf("image %s is for %s/%s: %w", name, found.Os, found.Architecture, cerrdefs.ErrNotFound)
	}
	if found.Os != "" && found.Os != linux {
		return nil, run.Errorf(run.CodeInvalid, "image %s is for %s; only %s images can be run", name, found.Os, linux)
	}
	info := &imageInfo{id: found.ID, environment: make(map[string]string)}
	if c := found.Config; c != nil {
		info.user, info.workingDir = c.User, c.WorkingDir
		for _, entry := range c.Env {
			if name, value, ok := strings.Cut(entry, "="); ok {
				info.environment[name] = value
			}
		}
		info.ports = tcpPorts(c.ExposedPorts)
	}
	if info.workingDir == "" {
		info.workingDir = "/"
	}
	return info, nil
}

// tcpPorts returns the TCP ports of a list as in "5432/tcp", "9000-9001".
func tcpPorts(exposed map[string]struct{}) []string {
	var ports []string
	for _, text := range slices.Sorted(maps.Keys(exposed)) {
		text, protocol, named := strings.Cut(text, "/")
		if named && protocol != "tcp" {
			continue
		}
		first, last, ranged := strings.Cut(text, "-")
		from, err := strconv.ParseUint(first, 10, 16)
		to := from
		if err == nil && ranged {
			to, err = strconv.ParseUint(last, 10, 16)
		}
		for port := from; err == nil && port <= to && len(ports) < maxPorts; port++ {
			ports = append(ports, strconv.FormatUint(port, 10))
		}
	}
	return ports
}

// pull fetches an image and reports its progress in the setup log.
func (d *Driver) pull(ctx context.Context, named reference.Named, platform *ocispec.Platform, auth map[string]run.Auth, log func(string)) error {
	name := reference.FamiliarString(named)
	options := image.PullOptions{}
	if platform != nil {
		options.Platform = platformString(platform)
	}
	var err error
	if options.RegistryAuth, err = registryAuth(reference.Domain(named), auth); err != nil {
		return err
	}
	began := time.Now()
	log("pulling image " + withPlatform(name, platform))
	answer, err := d.client.ImagePull(ctx, named.String(), options)
	if err != nil {
		return pullError(name, err)
	}
	defer func() { _ = answer.Close() }()
	fetched, err := followPull(answer, log)
	if err != nil {
		return pullError(name, err)
	}
	log(fmt.Sprintf("pulled image %s (%s in %s)", name, humanize.IBytes(fetched), time.Since(began).Round(100*time.Millisecond)))
	return nil
}

// followPull reads the daemon's progress messages until the pull ends and
// returns the number of bytes fetched.
func followPull(progress io.Reader, log func(string)) (fetched uint64, err error) {
	layers := make(map[string]jsonmessage.JSONProgress)
	reported := time.Now()
	for decoder := json.NewDecoder(progress); ; {
		var m jsonmessage.JSONMessage
		switch err := decoder.Decode(&m); {
		case errors.Is(err, io.EOF):
			return fetched, nil
		case err != nil:
			return fetched, fmt.Errorf("read the progress of the pull: %w", err)
		case m.Error != nil:
			return fetched, m.Error
		}
		if m.Status != "Downloading" || m.Progress == nil {
			continue
		}
		layers[m.ID] = *m.Progress
		var total uint64
		fetched = 0
		for _, l := range layers {
			fetched += uint64(max(0, l.Current))
			total += uint64(max(0, l.Total))
		}
		if time.Since(reported) >= pullLogInterval {
			reported = time.Now()
			log(fmt.Sprintf("pulling: %s of %s", humanize.IBytes(fetched), humanize.IBytes(total)))
		}
	}
}

// pullError distinguishes a pull that the registry refused from a daemon that
// is out of reach. Retrying the same start does not help against a refusal.
func pullError(name string, err error) error {
	switch code := codeOf(err); code {
	case run.CodeCanceled, run.CodeTimeout:
		return daemonError(err, "pull the image")
	case run.CodeUnavailable:
		if client.IsErrConnectionFailed(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return daemonError(err, "pull the image")
		}
	default:
	}
	text := daemonText(err)
	if !strings.Contains(text, name) {
		text = name + ": " + text
	}
	return &run.Error{Code: run.CodeInvalid, Message: "image pull failed: " + text, Err: err}
}

// registryAuth encodes the credentials for a registry's host. It returns "" if
// the task has none for that host.
func registryAuth(host string, auth map[string]run.Auth) (string, error) {
	host = strings.ToLower(host)
	names := []string{host}
	if host == dockerHub {
		names = append(names, "index.docker.io", "registry-1.docker.io", "https://index.docker.io/v1/")
	}
	for _, name := range names {
		a, ok := auth[name]
		if !ok {
			continue
		}
		encoded, err := registry.EncodeAuthConfig(registry.AuthConfig{Username: a.Username, Password: a.Password, ServerAddress: name})
		if err != nil {
			return "", fmt.Errorf("encode the credentials for %s: %w", name, err)
		}
		return encoded, nil
	}
	return "", nil
}

func platformString(p *ocispec.Platform) string {
	text := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		text += "/" + p.Variant
	}
	return text
}

func withPlatform(name string, p *ocispec.Platform) string {
	if p == nil {
		return name
	}
	return name + " (" + platformString(p) + ")"
}
