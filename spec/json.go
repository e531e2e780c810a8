package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/jsonfault"
	"github.com/drover-run/drover/run"
)

// maxDepth bounds the nesting of inputs; specifications need about ten.
const maxDepth = 100

// jsonReader builds the tree that a YAML parser would build, so that both
// formats share the decoder.
type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	offset  int64 // up to which newlines were counted
	line    int
	nodes   int
}

// parseJSON returns the root of the one value in data.
func parseJSON(data []byte) (*yaml.Node, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	r := &jsonReader{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.decoder.UseNumber() // keeps the text of numbers
	token, err := r.decoder.Token()
	if errors.Is(err, io.EOF) {
		return nil, unreadable(0, "the document is empty")
	}
	if err != nil {
		return nil, r.fail(err)
	}
	root, err := r.node(token, 0)
	if err != nil {
		return nil, err
	}
	if _, err := r.decoder.Token(); err == nil {
		return nil, unreadable(r.here(), "there is more after the end of the document")
	} else if !errors.Is(err, io.EOF) {
		return nil, unreadable(r.next(), "there is more after the end of the document")
	}
	return root, nil
}

// node returns the value that begins with token.
func (r *jsonReader) node(token json.Token, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, unreadable(r.here(), fmt.Sprintf("it is nested deeper than %d", maxDepth))
	}
	if r.nodes++; r.nodes > maxNodes {
		return nil, run.Errorf(run.CodeTooLarge, "the specification has more than %d values", maxNodes)
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.here()}
	switch v := token.(type) {
	case nil:
		n.Tag, n.Value = "!!null", "null"
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(v)
	case json.Number:
		n.Tag, n.Value = "!!int", v.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case string:
		n.Tag, n.Value = "!!str", v
	case json.Delim:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		// In an object, keys and values come in turn.
		for r.decoder.More() {
			token, err := r.decoder.Token()
			if err != nil {
				return nil, r.fail(err)
			}
			child, err := r.node(token, depth+1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if _, err := r.decoder.Token(); err != nil { // the closing bracket
			return nil, r.fail(err)
		}
	}
	return n, nil
}

// here returns the line of the last token.
func (r *jsonReader) here() int {
	to := min(r.decoder.InputOffset(), int64(len(r.data)))
	if to > r.offset {
		r.line += bytes.Count(r.data[r.offset:to], []byte("\n"))
		r.offset = to
	}
	return r.line
}

// fail returns an error of the JSON decoder with the line that follows the last
// good token: the offsets of the errors themselves leave punctuation out.
func (r *jsonReader) fail(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return unreadable(1+bytes.Count(r.data, []byte("\n")), "it is not JSON: it ends too early")
	}
	return unreadable(r.next(), "it is not JSON: "+jsonfault.Explain(err))
}

// next returns the line of what follows the last token.
func (r *jsonReader) next() int {
	line := r.here()
	rest := r.data[r.offset:]
	rest = rest[:len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,:"))]
	return line + bytes.Count(rest, []byte("\n"))
}
