// Command generate generates the Go code of a protocol file in the working
// directory. It parses the file itself, so that it needs no protoc, and runs
// the generators for messages and for gRPC.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if err := generate(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, name string) error {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		return fmt.Errorf("compile %s: %w", name, err)
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(files[0])},
		Parameter:      new("paths=source_relative"),
	})
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := runGenerator(ctx, tool, request); err != nil {
			return fmt.Errorf("%s: %w", tool, err)
		}
	}
	return nil
}

// runGenerator runs a generator on the request, and writes the files that it returns.
func runGenerator(ctx context.Context, tool string, request []byte) error {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=../../tools/go.mod", tool)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run the generator: %w: %s", err, stderr.Bytes())
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(stdout.Bytes(), &response); err != nil {
		return fmt.Errorf("decode its response: %w", err)
	}
	if response.Error != nil {
		return fmt.Errorf("the generator reported: %s", response.GetError())
	}
	for _, f := range response.File {
		if err := os.WriteFile(filepath.Base(f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}
