package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
)

func poolsCommand(env session.Env) *cobra.Command {
	c := &cobra.Command{
		Use: "pools", Short: "Show, create, update and delete pools",
		Example: `  drover pools list
  drover pools get shell
  drover pools set linux --driver docker --os linux --arch amd64 --default
  drover pools apply -f pool.yaml
  drover pools delete linux`,
	}
	f := newRegistryFlags(env, c)
	c.AddCommand(listPoolsCommand(f), getPoolCommand(f), applyPoolCommand(f), setPoolCommand(f), deletePoolsCommand(f))
	return c
}

func listPoolsCommand(f *registryFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the pools", Example: "  drover pools list -o json",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.Pools(c.Context())
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			t := render.NewTable(f.env.Stdout, "NAME", "DRIVER", "PLATFORM", "DEFAULT", "EXECUTORS", "SLOTS", "QUEUED", "RUNNING", "LABELS")
			for _, p := range answer.Value.Pools {
				t.Row(p.Name, p.Driver, platform(p), strconv.FormatBool(p.Default), strconv.Itoa(p.Online),
					fraction(p.SlotsUsed, p.Slots), strconv.Itoa(p.Queued), strconv.Itoa(p.Running), pairs(p.Labels))
			}
			return t.Flush()
		},
	}
}

// platform returns the os and arch that a pool guarantees.
func platform(p api.Pool) string {
	if p.OS == "" && p.Arch == "" {
		return "any"
	}
	return cmp.Or(p.OS, "any") + "/" + cmp.Or(p.Arch, "any")
}

func getPoolCommand(f *registryFlags) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a pool", Example: "  drover pools get shell",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.Pool(c.Context(), args[0])
			if err != nil {
				return err
			}
			return f.printPool(answer)
		},
	}
}

func (f *registryFlags) printPool(answer remote.Answer[api.Pool]) error {
	if f.output == render.AsJSON {
		return render.JSON(f.env.Stdout, answer.Raw)
	}
	p := answer.Value
	t := render.NewTable(f.env.Stdout)
	t.Field("name", p.Name)
	t.Field("driver", p.Driver)
	t.Field("platform", platform(p))
	t.Field("labels", pairs(p.Labels))
	t.Field("privileged", strconv.FormatBool(p.Privileged))
	t.Field("shared", strconv.FormatBool(p.Shared))
	t.Field("default", strconv.FormatBool(p.Default))
	if p.Exec != "" {
		t.Field("exec", string(p.Exec))
	}
	if p.Features != nil {
		t.Field("features", strings.Join(texts(p.Features), ", "))
	}
	t.Field("flavor", flavorText(p.Flavor))
	t.Field("executors", fmt.Sprintf("%d online, %d draining, %d offline", p.Online, p.Draining, p.Offline))
	t.Field("slots", fraction(p.SlotsUsed, p.Slots))
	t.Field("queued", count(p.Queued, "task"))
	running := count(p.Running, "task")
	if p.MaxRunning > 0 {
		running += fmt.Sprintf(", at most %d", p.MaxRunning)
	}
	t.Field("running", running)
	if len(p.AllowedGroups) > 0 {
		t.Field("groups", strings.Join(p.AllowedGroups, ", "))
	}
	for _, x := range p.FleetGroups {
		t.Field("groups of "+x.Fleet, strings.Join(x.AllowedGroups, ", "))
	}
	if p.Image != "" {
		t.Field("image", p.Image)
	}
	for _, list := range []struct {
		name  string
		items []string
	}{{"images", p.AllowedImages}, {"service images", p.AllowedServiceImages}, {"pull policies", texts(p.AllowedPullPolicies)}} {
		if len(list.items) > 0 {
			t.Field(list.name, strings.Join(list.items, ", "))
		}
	}
	for _, list := range []struct {
		name     string
		patterns []string
	}{{"volumes", p.AllowedVolumes}, {"host paths", p.AllowedHostPaths}, {"devices", p.AllowedDevices}} {
		if len(list.patterns) > 0 {
			t.Field(list.name, strings.Join(list.patterns, ", "))
		}
	}
	if len(p.ImageRewrites) > 0 {
		t.Field("image rewrites", pairs(p.ImageRewrites))
	}
	if len(p.Registries) > 0 {
		t.Field("registries", strings.Join(slices.Sorted(maps.Keys(p.Registries)), ", "))
	}
	if p.Kubernetes != nil {
		t.Field("kubernetes", "set; see -o json")
	}
	return t.Flush()
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

func flavorText(v run.Flavor) string {
	var parts []string
	if v.Name != "" {
		parts = append(parts, v.Name)
	}
	if v.Memory != "" {
		parts = append(parts, v.Memory+" a slot")
	}
	return strings.Join(parts, ", ")
}

// poolChange is the flags of the command set.
type poolChange struct {
	spec     api.PoolSpec
	labels   map[string]string
	policies []string
	rewrites []string
}

func setPoolCommand(f *registryFlags) *cobra.Command {
	var change poolChange
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Change settings of a pool, or create it",
		Long: `Changes the given settings of a pool, and creates the pool if it does not exist. drover pools apply -f FILE sets a whole pool.

An executor that registers for a pool that does not exist creates the pool. This command sets what executors do not register: the
default, the labels that tasks may require, the images that they may use, the flavor, and the settings of pods.`,
		Example: `  drover pools set linux --driver docker --os linux --arch amd64 --default
  drover pools set gpu --label gpu=a100 --flavor-name large --flavor-memory 64Gi
  drover pools set linux --allowed-images 'registry.example.com/team/*,alpine' --allowed-pull-policies always
  drover pools set linux --image-rewrites docker.io=mirror.example.com/hub`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			spec, err := change.merge(c, client, args[0])
			if err != nil {
				return err
			}
			answer, err := client.PutPool(c.Context(), args[0], spec)
			if err != nil {
				return err
			}
			return f.printPool(answer)
		},
	}
	flags := c.Flags()
	flags.StringVar(&change.spec.Driver, "driver", "", "shell, docker, kubernetes, ...; a new pool needs one")
	flags.StringVar(&change.spec.OS, "os", "", `required of all executors; "" for any`)
	flags.StringVar(&change.spec.Arch, "arch", "", `required of all executors; "" for any`)
	flags.StringToStringVar(&change.labels, "label", nil, "label KEY=VALUE that tasks may require (repeatable; replaces all labels)")
	flags.BoolVar(&change.spec.Privileged, "privileged", false, "allow privileged tasks")
	flags.BoolVar(&change.spec.Shared, "shared", false, "isolate images of runs: pull images for each task with the credentials of its own run and of the pool")
	flags.BoolVar(&change.spec.Default, "default", false, "use this pool for tasks without a pool, instead of another pool of its kind")
	flags.IntVar(&change.spec.MaxRunning, "max-running", 0, "how many of its tasks may run at a time; 0 for no limit")
	flags.StringSliceVar(&change.spec.AllowedGroups, "allowed-groups", nil, "patterns such as /acme/** of the groups whose runs may use the pool; /** for all")
	flags.StringVar(&change.spec.Image, "image", "", "the image of tasks without one")
	flags.StringSliceVar(&change.spec.AllowedImages, "allowed-images", nil,
		"patterns such as registry.example.com/team/* of the images that tasks and their steps may use; ** for all")
	flags.StringSliceVar(&change.spec.AllowedServiceImages, "allowed-service-images", nil,
		"patterns of the images that services may use, instead of --allowed-images; ** for all")
	flags.StringSliceVar(&change.policies, "allowed-pull-policies", nil, "if_not_present, always and never, as far as tasks may have them")
	flags.StringSliceVar(&change.spec.AllowedVolumes, "allowed-volumes", nil,
		`patterns such as build-* of the persistent volumes that tasks may have; "" for none`)
	flags.StringSliceVar(&change.spec.AllowedHostPaths, "allowed-host-paths", nil,
		`patterns such as /srv/mirrors/* of the paths of hosts that tasks may mount; "" for none`)
	flags.StringSliceVar(&change.spec.AllowedDevices, "allowed-devices", nil,
		`patterns such as /dev/ttyUSB* of the devices of hosts that tasks may have; "" for none`)
	flags.StringSliceVar(&change.rewrites, "image-rewrites", nil,
		`prefixes of full image names, and what replaces them in pulls: docker.io=mirror.example.com/hub (replaces all rewrites; "" for none)`)
	flags.StringVar((*string)(&change.spec.Exec), "exec", "", "allowed or forbidden: whether clients may run commands in its tasks")
	flags.StringVar(&change.spec.Flavor.Name, "flavor-name", "", "name of the size of a slot")
	flags.StringVar(&change.spec.Flavor.Memory, "flavor-memory", "", "memory of a slot, such as 8Gi")
	flags.Float64Var(&change.spec.Flavor.Weight, "flavor-weight", 0, "refused: it never had an effect")
	_ = flags.MarkHidden("flavor-weight")
	_ = c.RegisterFlagCompletionFunc("driver", cobra.FixedCompletions(
		[]string{run.DriverShell, run.DriverDocker, run.DriverKubernetes}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// merge returns the existing pool, changed by the flags.
// The gateway replaces the whole pool, so one of two concurrent changes is lost.
func (w poolChange) merge(c *cobra.Command, client *remote.Client, name string) (api.PoolSpec, error) {
	spec, err := currentPool(c, client, name)
	if err != nil {
		return spec, err
	}
	given := c.Flags().Changed
	for flag, set := range map[string]func(){
		"driver":                 func() { spec.Driver = w.spec.Driver },
		"os":                     func() { spec.OS = w.spec.OS },
		"arch":                   func() { spec.Arch = w.spec.Arch },
		"label":                  func() { spec.Labels = w.labels },
		"privileged":             func() { spec.Privileged = w.spec.Privileged },
		"shared":                 func() { spec.Shared = w.spec.Shared },
		"default":                func() { spec.Default = w.spec.Default },
		"max-running":            func() { spec.MaxRunning = w.spec.MaxRunning },
		"allowed-groups":         func() { spec.AllowedGroups = w.spec.AllowedGroups },
		"allowed-images":         func() { spec.AllowedImages = w.spec.AllowedImages },
		"allowed-volumes":        func() { spec.AllowedVolumes = w.spec.AllowedVolumes },
		"allowed-host-paths":     func() { spec.AllowedHostPaths = w.spec.AllowedHostPaths },
		"allowed-devices":        func() { spec.AllowedDevices = w.spec.AllowedDevices },
		"allowed-service-images": func() { spec.AllowedServiceImages = w.spec.AllowedServiceImages },
		"allowed-pull-policies": func() {
			spec.AllowedPullPolicies = nil
			for _, policy := range w.policies {
				spec.AllowedPullPolicies = append(spec.AllowedPullPolicies, run.PullPolicy(policy))
			}
		},
		"exec":          func() { spec.Exec = w.spec.Exec },
		"flavor-name":   func() { spec.Flavor.Name = w.spec.Flavor.Name },
		"flavor-memory": func() { spec.Flavor.Memory = w.spec.Flavor.Memory },
		"flavor-weight": func() { spec.Flavor.Weight = w.spec.Flavor.Weight },
		"image":         func() { spec.Image = w.spec.Image },
	} {
		if given(flag) {
			set()
		}
	}
	if given("image-rewrites") {
		spec.ImageRewrites = make(map[string]string)
		for _, text := range w.rewrites {
			from, to, _ := strings.Cut(text, "=")
			if _, twice := spec.ImageRewrites[from]; twice {
				return spec, command.Invalid("--image-rewrites has %s twice", from)
			}
			spec.ImageRewrites[from] = to
		}
	}
	return spec, nil
}

// currentPool returns the existing pool, or no settings if there is none.
func currentPool(c *cobra.Command, client *remote.Client, name string) (api.PoolSpec, error) {
	var spec api.PoolSpec
	was, err := client.Pool(c.Context(), name)
	switch {
	case err == nil:
		v := was.Value
		spec = api.PoolSpec{
			Driver: v.Driver, OS: v.OS, Arch: v.Arch, Labels: v.Labels, Privileged: v.Privileged, Shared: v.Shared,
			Default: v.Default, Exec: api.PoolSpecExec(v.Exec),
			Flavor: v.Flavor, Kubernetes: v.Kubernetes, MaxRunning: v.MaxRunning, AllowedGroups: v.AllowedGroups,
			Image: v.Image, AllowedImages: v.AllowedImages, AllowedServiceImages: v.AllowedServiceImages, AllowedPullPolicies: v.AllowedPullPolicies,
			// AllowedVolumes, AllowedHostPaths, AllowedDevices, ImageRewrites and Registries are absent: the gateway keeps those of the pool.
		}
	case run.CodeOf(err) != run.CodeNotFound:
		return spec, err
	}
	return spec, nil
}

func applyPoolCommand(f *registryFlags) *cobra.Command {
	return newApplier("pool", "driver", (*remote.Client).PutPool, f.printPool).bind(&cobra.Command{
		Short: "Create or update a pool from a file",
		Long: `Creates or updates a pool from a YAML or JSON file, or from standard input with -. The file is the whole pool, with the keys of the
API: driver, os, arch, labels, max_running, allowed_groups, image, allowed_images, allowed_service_images, allowed_pull_policies,
allowed_volumes, allowed_host_paths, allowed_devices, image_rewrites, registries, privileged, shared, default, exec, flavor, kubernetes. The name is in the file, or given by --name.`,
		Example: "  drover pools apply -f pool.yaml\n  drover pools apply -f pool.yaml --name cluster",
	}, f.env, f.conn)
}

func deletePoolsCommand(f *registryFlags) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: "Delete pools",
		Long:    "Deletes pools. A pool is not deleted if it has executors that are not deleted, or unfinished tasks.",
		Example: "  drover pools delete linux",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: completePools(f.conn, 0),
		RunE: func(c *cobra.Command, names []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			return forEach(names, func(name string) error {
				if err := client.DeletePool(c.Context(), name); err != nil || f.output == render.AsJSON {
					return err
				}
				_, err := fmt.Fprintf(f.env.Stdout, "pool %s deleted\n", name)
				return err
			})
		},
	}
}
