package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/yamlfault"
	"github.com/drover-run/drover/run"
)

// parseYAML returns the root of the one document in data.
func parseYAML(data []byte) (root *yaml.Node, err error) {
	// The YAML library may panic. The input then fails, not the process, which
	// serves other requests.
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, unreadable(0, fmt.Sprintf("it is not YAML: %v", r))
		}
	}()
	// The library allocates some hundred bytes for each value, and has no limit
	// of its own.
	separators := 0
	for _, s := range []string{"\n", ",", "- ", "? "} {
		separators += bytes.Count(data, []byte(s))
	}
	if separators > maxNodes {
		return nil, run.Errorf(run.CodeTooLarge, "the specification has %d lines, commas and dashes; the limit is %d", separators, maxNodes)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, unreadable(0, "the document is empty")
	} else if err != nil {
		return nil, YAMLError(data, err, nil)
	}
	if err := decoder.Decode(&more); err == nil {
		return nil, unreadable(more.Line, "there is a second document")
	} else if !errors.Is(err, io.EOF) {
		return nil, YAMLError(data, err, nil)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, unreadable(0, "the document is empty")
	}
	return doc.Content[0], nil
}

// YAMLError returns the faults of a text that package yaml refused to decode into a
// variable, with CodeUnreadable.
func YAMLError(data []byte, err error, into any) error {
	refused, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return unreadable(yamlfault.Explain(data, err))
	}
	out := &run.Error{Code: run.CodeUnreadable, Message: strings.ReplaceAll(yamlfault.Error(data, err, into).Error(), "\n", "; ")}
	for _, v := range yamlfault.Refused(refused, into) {
		out.Faults = append(out.Faults, run.Fault{Line: v.Line, Code: run.CodeUnreadable, Detail: v.Detail})
	}
	return out
}

// invalidUTF8 returns the line of the first byte that is not UTF-8, and
// whether there is one.
func invalidUTF8(data []byte) (int, bool) {
	if utf8.Valid(data) {
		return 0, false
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return 1 + bytes.Count(data[:i], []byte("\n")), true
		}
		i += size
	}
	return 0, true
}

// WriteYAML returns a JSON document as YAML, with its keys in the same order and
// scripts in block style.
func WriteYAML(document []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil { // YAML contains JSON
		return nil, fmt.Errorf("read the document: %w", err)
	}
	plainStyle(&root)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&root), encoder.Close()); err != nil {
		return nil, fmt.Errorf("write the document: %w", err)
	}
	return out.Bytes(), nil
}

// plainStyle removes the style of JSON from a node. The encoder quotes what would
// change its type without quotes.
func plainStyle(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		plainStyle(child)
	}
}
