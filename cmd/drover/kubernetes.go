package main

import (
	"context"
	"fmt"
	"os"

	"github.com/drover-run/drover/config"
	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/internal/version"
	"github.com/drover-run/drover/run"
)

// openSet returns the membership of this process in its executor set, and names
// the executor: by the host, which in a cluster is the pod.
func openSet(ctx context.Context, cfg *config.Executor, p *process) (*kubernetes.Set, error) {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	cfg.ID = executor.FreshID(host)
	kubernetes.LogTo(p.logger)
	k := cfg.Kubernetes
	cluster, namespace, err := kubernetes.Connect(placeOf(k))
	if err != nil {
		return nil, err
	}
	set, err := kubernetes.OpenSet(ctx, kubernetes.SetOptions{
		Config: cluster, Namespace: namespace, Name: cfg.Set, Member: cfg.ID, Lease: k.LeaseDuration, Logger: p.logger,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the executor set: %w", err)
	}
	return set, nil
}

// newKubernetes returns the driver of an executor, whose journal is its set's
// or else nil.
func newKubernetes(cfg config.Executor, journal executor.Journal, p *process) (executor.Driver, error) {
	if cfg.Set == "" { // else openSet has done it
		kubernetes.LogTo(p.logger)
	}
	k := cfg.Kubernetes
	cluster, namespace, err := kubernetes.Connect(placeOf(k))
	if err != nil {
		return nil, err
	}
	if k.HelperImage == "" {
		k.HelperImage = "drover:" + version.String()
	}
	options := kubernetes.Options{
		Config: cluster, Namespace: namespace, ExecutorID: cfg.ID, Set: cfg.Set,
		HelperImage: k.HelperImage, HelperPullPolicy: run.PullPolicy(k.HelperPullPolicy),
		AllowPrivileged: cfg.Privileged, PendingTimeout: k.PendingTimeout, Logger: p.logger,
	}
	if set, ok := journal.(*kubernetes.Set); ok {
		options.Owner = set.Owner
	} else if options.ExecutorID, err = executor.StateDirID(cfg.StateDir, cfg.ID); err != nil {
		return nil, fmt.Errorf("opening the executor's state: %w", err)
	}
	return kubernetes.New(options)
}

func placeOf(k config.Kubernetes) kubernetes.Place {
	return kubernetes.Place{Kubeconfig: k.Kubeconfig, Context: k.Context, Namespace: k.Namespace}
}
