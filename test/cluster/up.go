package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const (
	// readyTimeout bounds the whole start, which usually takes 20 seconds.
	readyTimeout = 5 * time.Minute
	// commandGrace is how long a command may take to clean up when the cluster
	// must end.
	commandGrace = 30 * time.Second
)

type upOptions struct {
	bin        string
	dir        string
	kubeconfig string
	images     []string
	detached   bool
	limit      time.Duration
}

var errParentGone = errors.New("the parent process of the cluster ended")

// up runs a cluster while command runs, or, without a command, until ctx or the
// parent process ends.
func up(ctx context.Context, log *slog.Logger, o upOptions, command []string) (fault error) {
	if err := checkRequirements(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !o.detached {
		if err := watchParent(cancel); err != nil {
			return err
		}
	}
	if o.limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, o.limit, errors.New("the time limit of the cluster expired"))
		defer stop()
	}

	begun := time.Now()
	c, err := launch(log, o)
	if err != nil {
		return err
	}
	defer func() { fault = errors.Join(fault, c.remove()) }()
	if err := c.ready(ctx, o.images); err != nil {
		return errors.Join(err, c.logTails())
	}
	kubeconfig := c.layout.config(adminKubeconfig)
	if o.kubeconfig != "" {
		if err := copyFile(kubeconfig, o.kubeconfig); err != nil {
			return err
		}
		kubeconfig = o.kubeconfig
		defer func() { fault = errors.Join(fault, os.Remove(o.kubeconfig)) }()
	}
	log.InfoContext(ctx, "the cluster is ready", "kubeconfig", kubeconfig, "dir", c.layout.Dir, "took", time.Since(begun).Round(time.Millisecond))

	go func() {
		select {
		case <-c.ended:
			cancel(errors.New("the node ended unexpectedly"))
		case <-ctx.Done():
		}
	}()
	if len(command) == 0 {
		<-ctx.Done()
		log.InfoContext(ctx, "removing the cluster", "why", context.Cause(ctx))
		return nil
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = commandGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Env = append(os.Environ(), kubeconfigVariable+"="+kubeconfig, registryVariable+"="+c.layout.registry())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return errors.Join(cause, c.logTails())
		}
		return err
	}
	return nil
}

func checkRequirements() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can create the namespaces of a cluster")
	}
	var packages []string
	for _, r := range requirements() {
		if _, err := exec.LookPath(r.program); err != nil {
			packages = append(packages, r.debian)
		}
	}
	if len(packages) > 0 {
		return fmt.Errorf("required programs are not installed; on Debian: apt-get install --no-install-recommends %s", strings.Join(packages, " "))
	}
	return nil
}

// watchParent cancels when the parent process ends.
func watchParent(cancel context.CancelCauseFunc) error {
	parent := os.Getppid()
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return fmt.Errorf("watch process %d: %w", parent, err)
	}
	if os.Getppid() != parent {
		return errParentGone
	}
	go func() {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		cancel(errParentGone)
	}()
	return nil
}

// cluster is a cluster as seen from outside its namespaces.
type cluster struct {
	log    *slog.Logger
	layout layout
	lock   *clusterLock
	node   *exec.Cmd
	ended  chan struct{} // closed after the node's first process has ended
}

// launch starts a node, which is not ready yet. After an error nothing is left.
func launch(log *slog.Logger, o upOptions) (c *cluster, err error) {
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return nil, err
	}
	c = &cluster{log: log, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.remove())
		}
	}()
	// One start at a time: two would choose the same addresses.
	starting, err := lockFile(locksDir() + ".lock")
	if err != nil {
		return nil, err
	}
	defer starting.Close()
	removeStale(log)

	if c.layout, err = newLayout(bin, o.dir); err != nil {
		return nil, err
	}
	if c.lock, err = newClusterLock(c.layout); err != nil {
		return nil, err
	}
	if err := c.layout.create(); err != nil {
		return nil, err
	}
	if err := writeConfigs(c.layout); err != nil {
		return nil, err
	}
	if err := createCGroup(c.layout.CGroup); err != nil {
		return nil, err
	}
	return c, c.startNode()
}

// startNode starts this program again in new namespaces, and links it to the
// host.
func (c *cluster) startNode() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	waits, linked, err := os.Pipe()
	if err != nil {
		return err
	}
	defer waits.Close()
	defer linked.Close()
	cmd := exec.Command(self, "node", c.layout.config("layout.json")) // this program; remove ends it
	cmd.ExtraFiles = []*os.File{waits}
	cmd.Stderr = os.Stderr
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // Ctrl-C at the terminal reaches only this process, which ends the node
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	c.node = cmd
	go func() {
		_ = cmd.Wait()
		close(c.ended)
	}()
	if err := os.WriteFile(filepath.Join(c.layout.Dir, pidFile), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		return err
	}
	return connect(c.layout, c.layout.link(), cmd.Process.Pid)
}

// ready imports the images and waits until pods can be created.
func (c *cluster) ready(ctx context.Context, images []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("the cluster was not ready in %s", readyTimeout))
	defer cancel()
	if err := c.await(ctx, func(context.Context) (bool, error) {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", c.node.Process.Pid, containerdSocket))
		return err == nil, nil
	}); err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	if err := importImages(ctx, c.node.Process.Pid, images); err != nil {
		return err
	}
	config, err := clientConfig(c.layout.config(adminKubeconfig))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return c.await(ctx, func(ctx context.Context) (bool, error) {
		// A pod needs a service account and a node.
		if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	})
}

func (c *cluster) await(ctx context.Context, condition wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		select {
		case <-c.ended:
			return false, errors.New("the node ended unexpectedly")
		default:
			return condition(ctx)
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// logTails returns an error with the ends of the programs' logs.
func (c *cluster) logTails() error {
	logs, err := filepath.Glob(c.layout.logs("*.log"))
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("last lines of the logs:")
	for _, path := range logs {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		fmt.Fprintf(&text, "\n== %s\n%s", filepath.Base(path), strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return errors.New(text.String())
}

// remove ends the node, and with it every process, mount and link of the
// cluster, and removes the rest.
func (c *cluster) remove() error {
	if c.node != nil {
		_ = c.node.Process.Kill()
		<-c.ended
	}
	if c.lock == nil {
		return nil
	}
	return c.lock.remove()
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}
