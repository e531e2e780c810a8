package fleeting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/drover-run/drover/fleeting/wire"
)

const versionTimeout = 5 * time.Second

// Check launches a plugin in its own directory and reports its properties. It
// initialises the plugin only if initialise is set, because Init may have side
// effects in the cloud.
func Check(ctx context.Context, o Options, initialised bool) (report Report, err error) {
	dir, err := os.MkdirTemp("", "drover-check-")
	if err != nil {
		return report, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o.Dir = dir
	if o, err = o.withDefaults(); err != nil {
		return report, err
	}
	report.Path = o.Plugin
	if report.Digest, err = digestOf(o.Plugin); err != nil {
		return report, err
	}
	if report.Build, err = pluginVersion(ctx, o); err != nil {
		return report, err
	}
	l, err := openLogs(dir, o.Logger) //nolint:contextcheck // logs belong to no call
	if err != nil {
		return report, err
	}
	defer l.close()
	p, err := start(o, l)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, p.kill(context.WithoutCancel(ctx), dir)) }()
	if err := servedCalls(ctx, p.conn.Conn, &report); err != nil {
		return report, err
	}
	if initialised {
		err = initialiseFor(ctx, p, o, &report)
	}
	return report, err
}

// pluginVersion runs the binary's version command, which also shows whether the
// binary runs on this host.
func pluginVersion(ctx context.Context, o Options) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.Plugin, "version")
	cmd.Env = o.env
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return "", fmt.Errorf("run plugin %s: %w", o.Plugin, err)
	}
	if err != nil || bytes.Contains(out, []byte("|")) { // without that command, a plugin may have served instead
		return "", nil
	}
	return strings.TrimSpace(string(out)), nil
}

// servedCalls lists the calls that the plugin serves, by gRPC reflection. Plugins
// in other languages may not support reflection.
func servedCalls(ctx context.Context, conn *grpc.ClientConn, report *Report) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	name := wire.InstanceGroup_ServiceDesc.ServiceName
	stream, err := reflection.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return fmt.Errorf("list the plugin's calls: %w", err)
	}
	err = stream.Send(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name},
	})
	if err != nil {
		return nil // no reflection
	}
	answer, err := stream.Recv()
	if err != nil {
		return nil // no reflection
	}
	if fault := answer.GetErrorResponse(); fault != nil {
		return fmt.Errorf("the plugin serves no %s: %s", name, fault.GetErrorMessage())
	}
	for _, text := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		var file descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(text, &file); err != nil {
			return fmt.Errorf("decode the plugin's service description: %w", err)
		}
		for _, service := range file.GetService() {
			if file.GetPackage()+"."+service.GetName() != name {
				continue
			}
			for _, m := range service.GetMethod() {
				report.Calls = append(report.Calls, m.GetName())
			}
		}
	}
	if len(report.Calls) > 0 {
		report.Missing = missing(report.Calls)
	}
	return nil
}

func missing(calls []string) []string {
	var lacks []string
	methods := wire.File_instance_group_proto.Services().ByName("InstanceGroup").Methods()
	for i := range methods.Len() {
		if name := string(methods.Get(i).Name()); !slices.Contains(calls, name) {
			lacks = append(lacks, name)
		}
	}
	return lacks
}

// initialiseFor initialises the plugin, lists its instances, and shuts it down.
func initialiseFor(ctx context.Context, p *process, o Options, report *Report) error {
	info, err := initialise(ctx, p.api, o)
	if err != nil {
		return classifyError(ctx, "Init", err)
	}
	report.Info, report.Capabilities = &info, info.Capabilities
	ctx, cancel := context.WithTimeout(ctx, o.Timeouts.Update)
	defer cancel()
	if report.Instances, err = list(ctx, p.api); err != nil {
		return classifyError(ctx, "Update", err)
	}
	_, _ = p.api.Shutdown(ctx, &wire.Empty{})
	return nil
}
