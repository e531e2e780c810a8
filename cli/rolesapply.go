package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func applyRolesCommand(f *rolesFlags) *cobra.Command {
	name, files := "", []string(nil)
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Create or replace lists of role grants from files",
		Long: `Creates or replaces lists of role grants from YAML or JSON files, or from standard input with -, and says which of them were
created, changed or unchanged. A file may have several documents, each with the keys name, grants and note:

  name: web-team
  grants:
  - {members: web, role: submitter, groups: [/acme/web/**]}
  - {subject: ana@example.com, role: approver, groups: [/acme/web/**]}

A document that has only the list of grants, such as the file of gateway.oidc.roles_file, gets its name by --name. With the key
version, as in the output of drover roles get -o json, a list is replaced only if it has not changed since.

If a document is not valid YAML, or its name is missing, nothing is changed.`,
		Example: "  drover roles apply -f web-team.yaml\n  drover roles apply -f roles.yaml --name all-teams\n  drover roles get web-team -o json | drover roles apply -f -",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return command.Invalid("a file is given with -f: %s -f %s", c.CommandPath(), args[0])
			case len(files) == 0:
				return command.Invalid("no file is given: %s -f FILE", c.CommandPath())
			}
			lists, err := f.readGrants(files, name)
			if err != nil {
				return err
			}
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			var errs []error
			for _, x := range lists {
				errs = append(errs, f.apply(c.Context(), client, x))
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "YAML or JSON file with role grants, - for standard input (repeatable)")
	c.Flags().StringVar(&name, "name", "", "name of the list, if the file has one document without a name")
	_ = c.MarkFlagFilename("file", "yaml", "yml", "json")
	return c
}

// grantsDocument is a document of a file.
type grantsDocument struct {
	file *specFile
	node *yaml.Node // the content of the document
	name string
	body []byte // for the gateway, which checks it
}

// readGrants reads the documents of all files.
func (f *rolesFlags) readGrants(files []string, name string) ([]grantsDocument, error) {
	var all []grantsDocument
	var errs []error
	for _, path := range files {
		file, err := readSpecFile(f.env, path)
		if err != nil {
			return nil, err
		}
		decoder := yaml.NewDecoder(bytes.NewReader(file.data))
		for {
			var root yaml.Node
			err := decoder.Decode(&root)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, file.faultOf(spec.YAMLError(file.data, err, nil), locateNot)
			}
			if len(root.Content) == 1 && root.Content[0].Tag != "!!null" { // not an empty document
				all = append(all, grantsDocument{file: file, node: root.Content[0]})
			}
		}
	}
	if len(all) == 0 {
		return nil, command.Invalid("%s has no role grants; grants: [] is an empty list", strings.Join(files, ", "))
	}
	if name != "" && len(all) > 1 {
		return nil, command.Invalid("--name is for one document, and not for %d", len(all))
	}
	names := map[string]bool{}
	for i := range all {
		err := all[i].read(name)
		if err == nil && names[all[i].name] {
			err = all[i].fault("name", run.FaultDuplicate, "there are two lists "+all[i].name)
		}
		names[all[i].name] = true
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// read sets the name and the body. The gateway checks the grants.
func (d *grantsDocument) read(name string) error {
	var content any
	if err := d.node.Decode(&content); err != nil {
		return d.file.faultOf(spec.YAMLError(d.file.data, err, nil), locateNot)
	}
	keys, ok := content.(map[string]any)
	if list, bare := content.([]any); bare {
		keys, ok = map[string]any{"grants": list}, true
	}
	if !ok {
		return d.fault("", run.FaultWrongType, "a document is a list of grants, or has the keys name, grants and note")
	}
	d.name = name
	if given, ok := keys["name"].(string); ok && name == "" {
		d.name = given
	}
	if d.name == "" {
		return d.fault("", run.FaultRequired, "the list has no name; give one with --name")
	}
	if n, ok := keys["unknown"].(int); ok && n > 0 {
		return d.fault("unknown", run.FaultBadValue, fmt.Sprintf("the file lacks %s that a newer version stored: change the list with that version", count(n, "grant")))
	}
	for _, shown := range []string{"name", "issuer", "unknown", "updated_at", "updated_by"} { // as get prints them
		delete(keys, shown)
	}
	var err error
	if d.body, err = json.Marshal(keys); err != nil { // its message names types of Go
		return d.file.faultOf(run.InvalidError("it cannot be sent as JSON", []run.Fault{notJSON(d.node)}), locateNot)
	}
	return nil
}

// notJSON returns the fault of the first value that YAML has and JSON does not.
func notJSON(n *yaml.Node) run.Fault {
	if n.ShortTag() == "!!float" {
		if f := 0.0; n.Decode(&f) == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return run.Fault{Line: n.Line, Code: run.FaultBadValue, Detail: "the value is not a finite number"}
		}
	}
	for i, inner := range n.Content {
		if key := n.Kind == yaml.MappingNode && i%2 == 0; key && inner.ShortTag() != "!!str" && inner.ShortTag() != "!!merge" {
			return run.Fault{Line: inner.Line, Code: run.FaultWrongType, Detail: fmt.Sprintf("the key %s is not a text; as a text it needs quotes", inner.Value)}
		}
		if fault := notJSON(inner); fault.Detail != "" {
			return fault
		}
	}
	return run.Fault{}
}

func (d *grantsDocument) fault(path string, code run.Code, detail string) error {
	return d.file.faultOf(run.InvalidError(detail, []run.Fault{{Path: path, Code: code, Detail: detail}}), d.locate)
}

// locateNot is for faults without a path.
func locateNot(faults []run.Fault, _ []byte, _ spec.Format) []run.Fault { return faults }

// locate adds the lines to faults of the document.
func (d *grantsDocument) locate(faults []run.Fault, _ []byte, _ spec.Format) []run.Fault {
	for i := range faults {
		faults[i].Line = lineOf(d.node, faults[i].Path)
	}
	return faults
}

// lineOf returns the line of a path such as grants[1].role below a node: that of the last
// element that exists. A list of grants alone stands for the key grants.
func lineOf(node *yaml.Node, path string) int {
	line := node.Line
	for _, element := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		var next *yaml.Node
		n, err := strconv.Atoi(element)
		switch {
		case node.Kind == yaml.SequenceNode && element == "grants":
			continue
		case node.Kind == yaml.SequenceNode && err == nil && n < len(node.Content):
			next = node.Content[n]
			line = next.Line
		case node.Kind == yaml.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == element {
					line, next = node.Content[i].Line, node.Content[i+1]
				}
			}
		}
		if next == nil {
			return line
		}
		node = next
	}
	return line
}

// apply puts a list, and says what changed.
func (f *rolesFlags) apply(ctx context.Context, client *remote.Client, d grantsDocument) error {
	before, err := client.RoleGrantsNamed(ctx, d.name)
	known := err == nil
	if err != nil && run.CodeOf(err) != run.CodeNotFound {
		return err
	}
	answer, err := client.PutRoleGrants(ctx, d.name, d.body)
	if err != nil {
		return d.file.faultOf(err, d.locate)
	}
	if f.output == render.AsJSON {
		return render.JSON(f.env.Stdout, answer.Raw)
	}
	change := "changed"
	switch {
	case !known:
		change = "created"
	case before.Value.Version == answer.Value.Version:
		change = "unchanged"
	}
	_, err = fmt.Fprintf(f.env.Stdout, "role grants %s %s\n", d.name, change)
	return err
}
