package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const (
	// linkedFD is closed by up once the node's network link exists.
	linkedFD = 3
	// startTimeout bounds the start of one program; a busy machine takes a while.
	startTimeout = 2 * time.Minute
	pollInterval = 100 * time.Millisecond
)

// runNode is the first process of the cluster's namespaces. It starts the
// programs and keeps running to reap orphans of containers. When it returns,
// the kernel kills every process of the cluster.
func runNode(log *slog.Logger, layoutPath string) error {
	l, err := readLayout(layoutPath)
	if err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return errors.New("node must be started by up, in its own namespaces")
	}
	if _, err := io.ReadAll(os.NewFile(linkedFD, "linked")); err != nil {
		return err
	}
	if err := setUpMounts(l); err != nil {
		return err
	}
	if err := joinNetwork(l); err != nil {
		return err
	}
	n := &node{layout: l, log: log, programs: map[int]string{}, failed: make(chan error, 1)}
	go func() {
		if err := n.start(context.Background()); err != nil {
			n.failed <- err
		}
	}()
	go n.reap()
	return <-n.failed
}

type node struct {
	layout layout
	log    *slog.Logger
	failed chan error // first failure, which ends the cluster

	mu       sync.Mutex
	programs map[int]string // by process id
}

// start starts the programs, each one after the programs that it needs are
// ready.
func (n *node) start(ctx context.Context) error {
	l := n.layout
	if err := n.run("etcd", "etcd", etcdArgs()); err != nil {
		return err
	}
	if err := n.run("containerd", "containerd", []string{"--config", l.config(containerdConfig)}); err != nil {
		return err
	}
	if err := awaitListener(ctx, "tcp", etcdAddress); err != nil {
		return fmt.Errorf("wait for etcd: %w", err)
	}
	if err := n.run("kube-apiserver", l.Bin+"/kube-apiserver", apiServerArgs(l)); err != nil {
		return err
	}
	if err := apiServerReady(ctx, l); err != nil {
		return fmt.Errorf("wait for the API server: %w", err)
	}
	if err := awaitListener(ctx, "unix", containerdSocket); err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	if err := n.run("kube-controller-manager", l.Bin+"/kube-controller-manager", controllerManagerArgs(l)); err != nil {
		return err
	}
	if err := n.run("kube-scheduler", l.Bin+"/kube-scheduler", schedulerArgs(l)); err != nil {
		return err
	}
	return n.run("kubelet", l.Bin+"/kubelet", kubeletArgs(l))
}

// run starts a program; reap reports its end.
func (n *node) run(name, path string, args []string) error {
	output, err := os.Create(n.layout.logs(name + ".log"))
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(path, args...) // they end with the namespace
	cmd.Stdout, cmd.Stderr = output, output
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	n.programs[cmd.Process.Pid] = name
	n.log.Debug("started", "program", name, "pid", cmd.Process.Pid)
	return nil
}

// reap reaps ended processes: programs, whose end is a failure, and orphans of
// containers.
func (n *node) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.ECHILD) { // no process has started yet
			time.Sleep(pollInterval)
			continue
		}
		if err != nil {
			continue
		}
		n.mu.Lock()
		name := n.programs[pid]
		n.mu.Unlock()
		if name != "" {
			n.failed <- fmt.Errorf("%s ended: exit status %d, signal %d", name, status.ExitStatus(), status.Signal())
			return
		}
	}
}

// awaitListener waits until a process listens at the address.
func awaitListener(ctx context.Context, network, address string) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, startTimeout, true, func(ctx context.Context) (bool, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		return true, conn.Close()
	})
}

func apiServerReady(ctx context.Context, l layout) error {
	config, err := clientConfig(l.config(adminKubeconfig))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, pollInterval, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, nil
	})
}
