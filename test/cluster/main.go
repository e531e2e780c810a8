// Command cluster runs a Kubernetes cluster of one node for tests. The cluster
// runs in its own process, mount and network namespaces. If this program ends
// for any reason, the kernel removes processes, mounts, links and packet filter
// rules with the first process of the namespaces. This program, or its next
// start, removes the rest: a directory and a control group.
//
// Linux and root only. It downloads no prebuilt binaries: Kubernetes is
// compiled from this module's requirements; etcd, containerd, runc and the CNI
// plugins come from the distribution.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// The kernel kills the node when the thread that started it ends, so that
	// thread must live as long as the process.
	runtime.LockOSThread()
	os.Exit(run())
}

// run runs the command of the process, and returns its exit status.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))

	err := command(log).ExecuteContext(ctx)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return 1
	}
	return 0
}

func command(log *slog.Logger) *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "A Kubernetes cluster of one node, for tests",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(upCommand(log), loadCommand(), nodeCommand(log))
	return root
}

func upCommand(log *slog.Logger) *cobra.Command {
	var options upOptions
	cmd := &cobra.Command{
		Use:   "up [flags] [-- COMMAND [ARG...]]",
		Short: "Start a cluster, run a command with " + kubeconfigVariable + " set, and remove the cluster",
		Long: "Starts a cluster and, when its node is ready, runs COMMAND; the cluster is removed when it has ended.\n" +
			"Without a command the cluster runs until a signal, or until its parent process ends.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return up(cmd.Context(), log, options, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.bin, "bin", "", "directory with kube-apiserver, kube-controller-manager, kube-scheduler and kubelet (required)")
	flags.StringVar(&options.dir, "dir", "", "directory to create for the cluster's files (default a temporary one)")
	flags.StringVar(&options.kubeconfig, "kubeconfig", "", "path of the administrator's kubeconfig to write (default in the cluster's directory)")
	flags.StringArrayVar(&options.images, "image", nil, "archive of images to import; the images must include "+pauseImage)
	flags.BoolVar(&options.detached, "detached", false, "keep running after the parent process ends")
	flags.DurationVar(&options.limit, "for", 0, "end after this time")
	_ = cmd.MarkFlagRequired("bin")
	return cmd
}

func loadCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "load --dir DIR ARCHIVE...",
		Short: "Import images into a running cluster, replacing images of the same names",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := readPID(dir)
			if err != nil {
				return err
			}
			return importImages(cmd.Context(), node, args)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the directory of the cluster (required)")
	_ = cmd.MarkFlagRequired("dir")
	return cmd
}

// nodeCommand returns the command that up starts in the new namespaces.
func nodeCommand(log *slog.Logger) *cobra.Command {
	return &cobra.Command{
		Use:    "node LAYOUT",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return runNode(log, args[0]) },
	}
}
