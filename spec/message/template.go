package message

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/drover-run/drover/run"
)

// functions returns the functions that a template may call. None of them builds a
// text, so that the work of a template is bounded by its length.
func functions() []string {
	return []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len"}
}

// Template is a compiled text of a user. It is safe for concurrent use.
type Template struct{ of *template.Template }

// Compile compiles a text as a Go template without loops over anything but
// .Failed, without own definitions, and with the comparisons as its only
// functions: its time and its output are bounded by its length.
func Compile(text string) (*Template, error) {
	if len(text) > run.MaxTemplateLength {
		return nil, fmt.Errorf("it has %d bytes; the limit is %d", len(text), run.MaxTemplateLength)
	}
	t, err := template.New("template").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, explain(text, err)
	}
	if len(t.Templates()) > 1 {
		return nil, errors.New("define and block are not supported")
	}
	if t.Tree != nil {
		if err := check(t.Root, false); err != nil {
			return nil, err
		}
	}
	return &Template{t}, nil
}

// check refuses what could make a template large or slow. looping says that the
// node is in a loop.
func check(node parse.Node, looping bool) error {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, x := range n.Nodes {
			if err := check(x, looping); err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
		return nil
	case *parse.ActionNode:
		return checkPipe(n.Pipe)
	case *parse.IfNode:
		return checkBranch(&n.BranchNode, looping)
	case *parse.WithNode:
		return checkBranch(&n.BranchNode, looping)
	case *parse.RangeNode:
		if looping {
			return errors.New("a loop in a loop is not supported")
		}
		if len(n.Pipe.Cmds) != 1 || !slices.Contains([]string{".Failed", "$.Failed"}, n.Pipe.Cmds[0].String()) {
			return errors.New("range is supported over .Failed only")
		}
		return errors.Join(check(n.List, true), check(n.ElseList, true))
	}
	return fmt.Errorf("%s is not supported", node)
}

func checkBranch(n *parse.BranchNode, looping bool) error {
	return errors.Join(checkPipe(n.Pipe), check(n.List, looping), check(n.ElseList, looping))
}

func checkPipe(pipe *parse.PipeNode) error {
	for _, command := range pipe.Cmds {
		for _, arg := range command.Args {
			switch x := arg.(type) {
			case *parse.IdentifierNode:
				if !slices.Contains(functions(), x.Ident) {
					return fmt.Errorf("the function %s is not supported; there are %s", x.Ident, strings.Join(functions(), ", "))
				}
			case *parse.PipeNode:
				if err := checkPipe(x); err != nil {
					return err
				}
			case *parse.ChainNode:
				return fmt.Errorf("%s is not supported", x)
			case *parse.FieldNode:
				if err := checkFields(x.Ident); err != nil {
					return err
				}
			case *parse.VariableNode:
				if err := checkFields(x.Ident[1:]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkFields refuses the methods of Data: a template reads fields only.
func checkFields(names []string) error {
	for _, name := range names {
		if slices.Contains([]string{"Title", "Facts", "FailedLines", "Escaped"}, name) {
			return fmt.Errorf("there is no field %s", name)
		}
	}
	return nil
}

// Execute returns the text of a message, cut at limit bytes.
func (t *Template) Execute(d Data, limit int) (string, error) {
	out := &bounded{left: limit}
	if err := t.of.Execute(out, d); err != nil && !errors.Is(err, errFull) {
		return "", err
	}
	return strings.ToValidUTF8(out.String(), ""), nil
}

// Check returns why a template cannot be used, on the samples of all events.
func Check(text string) error {
	t, err := Compile(text)
	if err != nil {
		return err
	}
	for _, d := range Samples("sample") {
		if err := t.of.Execute(io.Discard, d); err != nil {
			return explain(text, err)
		}
	}
	return nil
}

var errFull = errors.New("the message is full")

// bounded keeps the first bytes that are written to it.
type bounded struct {
	strings.Builder
	left int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	_, _ = b.Builder.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}
