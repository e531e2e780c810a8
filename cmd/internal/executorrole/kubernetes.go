package executorrole

import (
	"context"
	"fmt"
	"os"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/statedir"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/executor/kubernetes/executorset"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/version"
	"github.com/drover-run/drover/run"
)

// openSet opens the membership of this process in its executor set. It sets the
// id of the executor to the host name, which in a cluster is the name of the pod.
func openSet(ctx context.Context, cfg *config.Executor, p *process.Process) (*executorset.Set, error) {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	cfg.ID = statedir.FreshID(host)
	kubernetes.LogTo(p.Logger)
	k := cfg.Kubernetes
	cluster, namespace, err := kubernetes.Connect(connectionOf(k))
	if err != nil {
		return nil, err
	}
	set, err := executorset.OpenSet(ctx, executorset.SetOptions{
		Config: cluster, Namespace: namespace, Name: cfg.Set, Member: cfg.ID, Lease: k.LeaseDuration, Logger: p.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open the executor set: %w", err)
	}
	return set, nil
}

// newKubernetes returns the kubernetes driver. journal is the journal of the
// executor's set, or nil.
func newKubernetes(cfg config.Executor, journal executor.Journal, p *process.Process) (executor.Driver, error) {
	if cfg.Set == "" { // with a set, openSet does this
		kubernetes.LogTo(p.Logger)
	}
	k := cfg.Kubernetes
	cluster, namespace, err := kubernetes.Connect(connectionOf(k))
	if err != nil {
		return nil, err
	}
	if k.HelperImage == "" {
		k.HelperImage = "drover:" + version.String()
	}
	options := kubernetes.Options{
		Config: cluster, Namespace: namespace, ExecutorID: cfg.ID, Set: cfg.Set,
		HelperImage: k.HelperImage, HelperPullPolicy: run.PullPolicy(k.HelperPullPolicy),
		AllowPrivileged: cfg.Privileged, CheckoutImage: cfg.CheckoutImage, PendingTimeout: k.PendingTimeout, Logger: p.Logger,
	}
	if set, ok := journal.(*executorset.Set); ok {
		options.Owner = set.Owner
	} else if options.ExecutorID, err = statedir.ID(cfg.StateDir, cfg.ID); err != nil {
		return nil, fmt.Errorf("open the executor's state: %w", err)
	}
	return kubernetes.New(options)
}

func connectionOf(k config.Kubernetes) kubernetes.Location {
	return kubernetes.Location{Kubeconfig: k.Kubeconfig, Context: k.Context, Namespace: k.Namespace}
}
