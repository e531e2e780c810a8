package docker

import (
	"context"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

const (
	// settleRunning is how long a running container without a journal, whose
	// order another process sends, may take to begin or to give up.
	settleRunning = 5 * time.Second
	// settleCreated is how long a container that another process created may
	// take to be started.
	settleCreated = 2 * time.Second
	// settlePoll is the polling interval for both.
	settlePoll = 20 * time.Millisecond
	// createTimeout bounds a call that creates something at the daemon. Such a call
	// is not cut short when the caller gives up: the driver could not know what
	// to remove.
	createTimeout = 2 * time.Minute
	// createTries is how often a container beside the main one is created if its name
	// is taken.
	createTries = 3
	// cleanupTimeout bounds the removal of what a failed start created.
	cleanupTimeout = 30 * time.Second
)

// Start implements executor.Driver. The steps of a key run at most once: the
// shim's journal is on a volume of the one container that has the key's name,
// and a shim that finds a journal runs nothing. A container without a journal that
// another call created and did not start in time is replaced: its creator, which may
// only be slow, then finds that its container is gone, and removes nothing else.
func (d *Driver) Start(ctx context.Context, task executor.Task) (_ executor.Handle, err error) {
	key := task.Definition.Key
	if task.Definition, err = executor.WithCheckoutImage(task.Definition, d.options.CheckoutImage); err != nil {
		return nil, err
	}
	p, err := d.newPlan(task.Definition)
	if err != nil {
		return nil, err
	}
	unlock, err := d.locks.Lock(ctx, key)
	if err != nil {
		return nil, daemonError(err, "wait for another operation on %s", key)
	}
	defer unlock()

	s := &starting{driver: d, task: task, plan: p, log: task.Log}
	if s.log == nil {
		s.log = func(string) {}
	}
	defer func() {
		if err == nil {
			return
		}
		if run.CodeOf(err) == run.CodeUnavailable && hasEnded(ctx) { // the connection broke because the caller gave up
			err = daemonError(context.Cause(ctx), "start %s (%v)", key, err)
		}
		if s.replaced(ctx) {
			err = run.Errorf(run.CodeUnavailable, "start %s: its container was removed, perhaps by another process of this executor: %w", key, err)
		}
		s.giveUp(ctx)
	}()
	if task.Resume {
		begun, err := s.find(ctx)
		if err != nil {
			return nil, err
		}
		if begun {
			return s.handle(), nil
		}
	}
	begun, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if begun { // another process has started it, on a network of its own
		if err := s.removeOwnNetwork(ctx); err != nil {
			d.log.WarnContext(ctx, "failed to remove an unused network", "key", key.String(), "error", err)
		}
		return s.handle(), nil
	}
	return s.launch(ctx)
}

// starting is one call of Start.
type starting struct {
	driver   *Driver
	task     executor.Task
	plan     *plan
	log      func(string)
	image    *imageInfo
	services []*imageInfo
	helpers  []*imageInfo      // in the order of Definition.HelperImages
	stores   map[string]string // object stores of checkouts, by repository
	id       string            // of the main container
	nonce    string
	// ownNetwork is the name of the network that this call has created for the main
	// container and the services; "" if they share the main container's.
	ownNetwork string
	found      string // image of a container that existed before
	idle       bool   // no step has run, and none can run until the order is sent
	started    bool   // the daemon was asked to start the container: only then is a journal of its shim
	launched   bool   // task.Launch returned no error
	first      int64  // number of the shim's first frame, from task.Launch
	attached   *attachment
}

func (s *starting) key() run.Key { return s.task.Definition.Key }

// network is the network mode of what shares the network of the main container.
func (s *starting) network() string { return "container:" + s.id }

func (s *starting) handle() *handle {
	h := &handle{driver: s.driver, key: s.key(), id: s.id, nonce: s.nonce}
	if !s.task.HideServices {
		h.secrets = mask.NewSet(s.task.Definition.Secrets)
	}
	return h
}

// replaced reports whether the container of this call does not exist any more.
func (s *starting) replaced(ctx context.Context) bool {
	if s.id == "" || ctx.Err() != nil {
		return false
	}
	_, err := s.driver.client.ContainerInspect(ctx, s.id)
	return cerrdefs.IsNotFound(err)
}

// giveUp removes what was created, if it is certain that no step has run. A network without
// a container of this call goes in any case.
func (s *starting) giveUp(ctx context.Context) {
	if s.attached != nil {
		s.attached.close()
	}
	if s.idle && (s.launched || s.task.Resume || s.task.Keep) || !s.idle && s.ownNetwork == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var begun bool
	var err error
	if s.idle {
		if s.started {
			begun, err = s.driver.hasJournal(ctx, s.id)
		}
		if err == nil && !begun {
			err = s.removeOwn(ctx)
		}
	}
	if err == nil && !begun {
		err = s.removeOwnNetwork(ctx)
	}
	if err != nil {
		s.driver.log.WarnContext(ctx, "failed to remove a failed environment", "key", s.key().String(), "error", err)
	}
}

// removeOwn removes the main container by its id, and the containers that share its
// network or are on that of this call. Another process may have replaced it by one of the
// same name.
func (s *starting) removeOwn(ctx context.Context) error {
	others, err := s.driver.others(ctx, s.key())
	if err != nil {
		return err
	}
	others = slices.DeleteFunc(others, func(c container.Summary) bool {
		mode := c.HostConfig.NetworkMode
		return mode != s.network() && (s.ownNetwork == "" || mode != s.ownNetwork)
	})
	waiting := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.driver.removeContainer(ctx, s.id) })
	for _, c := range others {
		group.Go(func() error { return s.driver.removeContainer(ctx, c.ID) })
	}
	if err := group.Wait(); err != nil || len(others) == 0 {
		return err
	}
	return s.driver.removeVolumes(waiting, s.key())
}

// prepare makes the images, the shim's volume and the main container ready.
func (s *starting) prepare(ctx context.Context) (begun bool, err error) {
	d, def := s.driver, s.task.Definition
	if s.task.Resume {
		// All images were present at the launch; an unreachable registry must
		// not fail a resumed task.
		def.PullPolicy = run.PullIfNotPresent
	}
	if s.found != "" {
		s.image, err = d.inspectImage(ctx, s.found, nil)
	}
	if s.image == nil {
		s.image, err = d.ensureImage(ctx, def, def.Image, s.plan.platform, s.log)
	}
	if err != nil {
		return false, err
	}
	for _, service := range def.Services {
		info, err := d.ensureImage(ctx, def, service.Image, s.plan.platform, s.log)
		if err != nil {
			return false, run.Errorf(run.CodeOf(err), "service %s: %w", service.Name, err)
		}
		s.services = append(s.services, info)
	}
	if err := s.ensureHelperImages(ctx, def); err != nil {
		return false, err
	}
	if err := d.ensureVolume(ctx, def.Image, s.plan.platform); err != nil {
		return false, err
	}
	s.stores = d.stores.Prepare(ctx, &def, s.log)
	for s.id == "" {
		if begun, err := s.create(ctx); err != nil || begun {
			return begun, err
		}
	}
	return false, ctxError(ctx)
}

// create creates the main container, or finds an existing one.
func (s *starting) create(ctx context.Context) (begun bool, err error) {
	d := s.driver
	if err := s.checkHostPaths(ctx); err != nil {
		// A task that has begun goes on, even if a path has vanished since.
		begun, failed := s.find(ctx)
		switch {
		case run.CodeOf(failed) == run.CodeNotFound && !s.task.Resume:
			s.id = ""
		case failed != nil || s.id != "":
			return begun, failed
		}
		return false, err
	}
	config, host := d.mainConfig(s.plan)
	done, err := d.gpus.assign(ctx, s.plan, config, host)
	if err != nil {
		return false, err
	}
	if err := s.joinOwnNetwork(ctx, host); err != nil {
		done()
		return false, err
	}
	id, err := d.create(ctx, config, host, nil, s.plan.platform, d.options.mainName(s.key()))
	done()
	switch {
	case err == nil:
		s.id, s.nonce, s.idle = id, s.plan.nonce, true
		if err := s.checkMounts(ctx, id, s.task.Definition.Image); err != nil {
			return false, err
		}
		return false, s.checkNoJournal(ctx)
	case cerrdefs.IsConflict(err):
		begun, err := s.find(ctx)
		if run.CodeOf(err) == run.CodeNotFound && !s.task.Resume {
			s.id = ""
			return false, ctxError(ctx) // removed meanwhile
		}
		return begun, err
	}
	return false, s.networkMissing(err, "create the container")
}

// find looks for a container that an earlier call created, and reports whether
// its shim has begun. If it has not, the container does not exist any more when find
// returns, or must be looked at again.
func (s *starting) find(ctx context.Context) (begun bool, err error) {
	d := s.driver
	c, err := d.inspect(ctx, s.key())
	if err != nil {
		return false, err
	}
	s.plan.resources.DeviceRequests = requestGPUs(c.Config.Labels[d.options.label("gpus")])
	s.id, s.nonce, s.found = c.ID, c.Config.Labels[d.options.label("nonce")], c.Image
	if d.delivered(s.key()) {
		return true, nil
	}
	begun, state, err := s.settle(ctx, c.State.Status)
	if err != nil || begun {
		return begun, err
	}
	switch state {
	case container.StateCreated:
		// Never started. A client that attached to it and left has closed its
		// stdin for good.
		s.id = ""
		return false, s.removeAbandoned(ctx, c)
	case container.StateRemoving, container.StateDead:
		if s.task.Resume {
			return false, run.Errorf(run.CodeNotFound, "the container was removed from outside")
		}
		s.id = ""
		if err := d.removeContainer(ctx, c.ID); err != nil {
			return false, err
		}
		networks{d}.removeAbandoned(ctx, s.key(), c.HostConfig.NetworkMode)
		return false, nil
	case container.StateExited:
	default:
		// No other process sends the order in time any more. Once killed, the
		// shim has written a journal or never will.
		if err := d.kill(ctx, s.id); err != nil {
			return false, err
		}
		if begun, err = d.hasJournal(ctx, s.id); err != nil || begun {
			return begun, err
		}
	}
	if err = s.removeAbandoned(ctx, c); err == nil && s.replaced(ctx) {
		err = s.removeOwn(ctx)
	}
	s.id = ""
	return false, err
}

// removeAbandoned removes a main container that does not run, and its network. If another
// process starts it after all, or another client removes it, the daemon refuses, and the
// next look finds out.
func (s *starting) removeAbandoned(ctx context.Context, c container.InspectResponse) error {
	err := s.driver.client.ContainerRemove(ctx, c.ID, container.RemoveOptions{RemoveVolumes: true})
	switch {
	case err == nil, cerrdefs.IsNotFound(err):
		networks{s.driver}.removeAbandoned(ctx, s.key(), c.HostConfig.NetworkMode)
		return nil
	case cerrdefs.IsConflict(err):
		return nil
	}
	return daemonError(err, "remove container %s", c.ID)
}

// settle waits while another process may be about to start the container, or
// its shim to begin. It returns the container's last state. A journal in a container that was
// never started is not of its shim.
func (s *starting) settle(ctx context.Context, state container.ContainerState) (bool, container.ContainerState, error) {
	d := s.driver
	for began := time.Now(); ; {
		begun, err := d.hasJournal(ctx, s.id)
		if err == nil && begun && state == container.StateCreated {
			// Another process may have started it since this look.
			state, err = s.state(ctx)
		}
		if err != nil || begun && state != container.StateCreated {
			return begun, state, err
		}
		timeout := settleRunning
		switch state {
		case container.StateCreated:
			timeout = settleCreated
		case container.StateRemoving, container.StateDead, container.StateExited:
			return false, state, nil
		}
		if time.Since(began) > timeout {
			return false, state, nil
		}
		if err := pause(ctx, settlePoll); err != nil {
			return false, state, err
		}
		if state, err = s.state(ctx); err != nil {
			return false, state, err
		}
	}
}

// state returns the state of the main container.
func (s *starting) state(ctx context.Context) (container.ContainerState, error) {
	c, err := s.driver.client.ContainerInspect(ctx, s.id)
	if err != nil {
		return "", daemonError(err, "inspect the container of %s", s.key())
	}
	return c.State.Status, nil
}

// launch starts the containers, records the launch with the executor, and sends
// the order to the shim.
func (s *starting) launch(ctx context.Context) (_ *handle, err error) {
	if err := s.startMain(ctx); err != nil {
		return nil, err
	}
	if err := s.startServices(ctx); err != nil {
		return nil, err
	}
	if err := s.startHelpers(ctx); err != nil {
		return nil, err
	}
	if err := s.sendOrder(ctx); err != nil {
		return nil, err
	}
	s.driver.storeAttachment(s.key(), s.attached)
	return s.handle(), nil
}

// sendOrder records the launch with the executor, once, and writes the order.
func (s *starting) sendOrder(ctx context.Context) error {
	if !s.launched {
		first, err := s.task.Launch()
		if err != nil {
			return run.Errorf(codeOf(err), "record the launch: %w", err)
		}
		s.launched, s.first = true, first
	}
	if err := s.attached.send(ctx, s.order(s.first)); err != nil {
		return &run.Error{Code: run.CodeUnavailable, Message: "send the definition to the shim", Err: err}
	}
	s.attached.first = s.first
	return nil
}

// startMain attaches to the main container and starts it. If the volume with
// the shim was pruned meanwhile, startMain fills it again.
func (s *starting) startMain(ctx context.Context) (err error) {
	d := s.driver
	for attempt := 1; ; attempt++ {
		if s.attached, err = d.attach(ctx, s.id, s.nonce, true); err != nil {
			return err
		}
		if err = s.checkHostPaths(ctx); err != nil { // again: much has happened since
			return err
		}
		s.started = true
		err = d.start(ctx, s.id)
		if err == nil {
			return ctxError(ctx)
		}
		s.attached.close()
		s.attached = nil
		if attempt > 1 || !strings.Contains(err.Error(), toolDir) {
			return s.networkMissing(err, "start the container")
		}
		d.forgetVolume()
		if err := d.ensureVolume(ctx, s.task.Definition.Image, s.plan.platform); err != nil {
			return err
		}
	}
}

// order returns the order for the shim. It omits what only the driver needs.
func (s *starting) order(first int64) run.ShimSpec {
	def := s.task.Definition
	def.Auth, def.Services, def.ServiceNetwork = nil, nil, ""
	order := run.ShimSpec{
		Version: run.RequiredSpecVersion(&def), FirstFrame: first, Definition: def,
		User: s.image.user, WorkingDir: s.image.workingDir, BaseEnvironment: s.image.variables(), Helpers: s.helperSpecs(),
		GitStores: s.gitStoreDirs(),
	}
	if len(def.SecretFiles) > 0 {
		order.SecretsDir = secretsDir
	}
	return order
}

// create creates a container, even if the context ends meanwhile.
func (d *Driver) create(ctx context.Context, config *container.Config, host *container.HostConfig, networking *network.NetworkingConfig, platform *ocispec.Platform, name string) (id string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	created, err := d.client.ContainerCreate(ctx, config, host, networking, platform, name)
	return created.ID, err
}

// createBeside creates a container that belongs to the main container. One
// that has its name already was created for a main container that does not exist any
// more, perhaps late, by a process that was slow. If the main container of this call still
// exists after that one was seen, it is not of a successor, and is removed.
func (s *starting) createBeside(ctx context.Context, config *container.Config, host *container.HostConfig, networking *network.NetworkingConfig, name string) (id string, err error) {
	for try := 1; ; try++ {
		id, err = s.driver.create(ctx, config, host, networking, s.plan.platform, name)
		if !cerrdefs.IsConflict(err) || try == createTries {
			return id, err
		}
		other, missing := s.driver.client.ContainerInspect(ctx, name)
		switch {
		case s.replaced(ctx):
			return id, err
		case cerrdefs.IsNotFound(missing):
			continue
		case missing != nil:
			return "", daemonError(missing, "inspect container %s", name)
		}
		if err := s.driver.removeContainer(ctx, other.ID); err != nil {
			return "", err
		}
		networks{s.driver}.removeAbandoned(ctx, s.key(), other.HostConfig.NetworkMode)
	}
}

// start starts a container, even if the context ends meanwhile.
func (d *Driver) start(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	return d.client.ContainerStart(ctx, id, container.StartOptions{})
}

// hasEnded reports whether a context has ended. The deadline of a context is that of its
// connections too, which may notice it a moment earlier.
func hasEnded(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// ctxError returns an error if the context has ended.
func ctxError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return daemonError(context.Cause(ctx), "start the environment")
}
