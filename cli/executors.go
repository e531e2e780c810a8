package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
)

func executorsCommand(env Env) *cobra.Command {
	conn, output := &connection{env: env}, format("")
	c := &cobra.Command{
		Use: "executors", Short: "Look at executors",
		Example: "  drover executors list\n  drover executors get ID",
	}
	parent(c)
	conn.addTo(c)
	output.addTo(c, formatTable)
	list := &cobra.Command{
		Use: "list", Short: "List the executors", Example: "  drover executors list -o json",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := conn.open()
			if err != nil {
				return err
			}
			answer, err := client.Executors(c.Context())
			if err != nil {
				return err
			}
			if output == formatJSON {
				return printJSON(env.Stdout, answer.Raw)
			}
			t := newTable(env.Stdout, "ID", "POOL", "DRIVER", "STATE", "SLOTS", "LAST CONTACT", "VERSION")
			for _, e := range answer.Value.Executors {
				t.row(e.ID, e.Pool, e.Driver, string(e.State), used(e.SlotsUsed, e.Slots), env.ago(e.LastContact), e.Version)
			}
			return t.flush()
		},
	}
	get := &cobra.Command{
		Use: "get ID", Short: "Show an executor", Example: "  drover executors get host-7-shell",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeExecutors(conn),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.open()
			if err != nil {
				return err
			}
			answer, err := client.Executor(c.Context(), args[0])
			if err != nil {
				return err
			}
			if output == formatJSON {
				return printJSON(env.Stdout, answer.Raw)
			}
			return printExecutor(env, answer.Value)
		},
	}
	c.AddCommand(list, get)
	return c
}

func printExecutor(env Env, e api.Executor) error {
	t := newTable(env.Stdout)
	t.field("id", e.ID)
	t.field("pool", e.Pool)
	t.field("driver", e.Driver)
	t.field("platform", e.OS+"/"+e.Arch)
	t.field("labels", pairs(e.Labels))
	t.field("privileged", strconv.FormatBool(e.Privileged))
	t.field("state", string(e.State))
	t.field("slots", used(e.SlotsUsed, e.Slots))
	t.field("registered", env.clock(e.RegisteredAt))
	t.field("last contact", env.ago(e.LastContact))
	t.field("version", e.Version)
	return t.flush()
}

func poolsCommand(env Env) *cobra.Command {
	conn, output := &connection{env: env}, format("")
	c := &cobra.Command{
		Use: "pools", Short: "Look at the pools that tasks go to",
		Example: "  drover pools list\n  drover pools get shell",
	}
	parent(c)
	conn.addTo(c)
	output.addTo(c, formatTable)
	list := &cobra.Command{
		Use: "list", Short: "List the pools", Example: "  drover pools list -o json",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := conn.open()
			if err != nil {
				return err
			}
			answer, err := client.Pools(c.Context())
			if err != nil {
				return err
			}
			if output == formatJSON {
				return printJSON(env.Stdout, answer.Raw)
			}
			t := newTable(env.Stdout, "NAME", "DRIVER", "PLATFORM", "DEFAULT", "EXECUTORS", "SLOTS", "QUEUED", "RUNNING")
			for _, p := range answer.Value.Pools {
				t.row(p.Name, p.Driver, p.OS+"/"+p.Arch, strconv.FormatBool(p.Default), strconv.Itoa(p.Online),
					used(p.SlotsUsed, p.Slots), strconv.Itoa(p.Queued), strconv.Itoa(p.Running))
			}
			return t.flush()
		},
	}
	get := &cobra.Command{
		Use: "get NAME", Short: "Show a pool", Example: "  drover pools get shell",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(conn),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.open()
			if err != nil {
				return err
			}
			answer, err := client.Pool(c.Context(), args[0])
			if err != nil {
				return err
			}
			if output == formatJSON {
				return printJSON(env.Stdout, answer.Raw)
			}
			return printPool(env, answer.Value)
		},
	}
	c.AddCommand(list, get)
	return c
}

func printPool(env Env, p api.Pool) error {
	t := newTable(env.Stdout)
	t.field("name", p.Name)
	t.field("driver", p.Driver)
	t.field("platform", p.OS+"/"+p.Arch)
	t.field("labels", pairs(p.Labels))
	t.field("privileged", strconv.FormatBool(p.Privileged))
	t.field("default", strconv.FormatBool(p.Default))
	t.field("executors", fmt.Sprintf("%d online", p.Online))
	t.field("slots", used(p.SlotsUsed, p.Slots))
	t.field("queued", count(p.Queued, "task"))
	t.field("running", count(p.Running, "task"))
	return t.flush()
}

func used(n, of int) string { return fmt.Sprintf("%d/%d", n, of) }
