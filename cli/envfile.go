package cli

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
)

// readEnvFile adds the variables of a file. Errors do not contain its text, which
// may have secrets.
func readEnvFile(env session.Env, name string, out map[string]string) error {
	data, err := readFile(env, name)
	if err != nil {
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err
		}
		return run.Errorf(run.CodeInvalid, "read %s: %w", name, err)
	}
	if len(data) > maxFile {
		return run.Errorf(run.CodeTooLarge, "%s has more than %d bytes", name, maxFile)
	}
	if !utf8.Valid(data) {
		return run.Errorf(run.CodeInvalid, "read %s: it is not UTF-8", name)
	}
	if line, fault := parseEnv(string(bytes.TrimPrefix(data, []byte("\ufeff"))), out); fault != "" {
		return run.Errorf(run.CodeInvalid, "read %s: line %d: %s", name, line, fault)
	}
	return nil
}

// parseEnv adds the variables of a text with one NAME=VALUE a line. It expands
// nothing: a value is what follows the =, or what is between its quotes, which may
// be several lines. If a line is not valid, parseEnv returns its number, from 1,
// and why.
func parseEnv(text string, out map[string]string) (line int, fault string) {
	for text != "" {
		line++
		whole, rest, _ := strings.Cut(text, "\n")
		assignment := strings.TrimLeft(whole, " \t")
		if trimmed := strings.TrimSuffix(assignment, "\r"); trimmed == "" || trimmed[0] == '#' {
			text = rest
			continue
		}
		if after, ok := strings.CutPrefix(assignment, "export"); ok {
			if trimmed := strings.TrimLeft(after, " \t"); trimmed != after {
				assignment = trimmed
			}
		}
		name, value, ok := strings.Cut(assignment, "=")
		switch {
		case !ok || name == "":
			return line, "it is not NAME=VALUE"
		case strings.ContainsAny(name, " \t\"'"):
			return line, "the name has a space or a quote; write NAME=VALUE"
		case value != "" && (value[0] == '"' || value[0] == '\''):
			var lines int
			if value, rest, lines, fault = between(text[len(whole)-len(value):]); fault != "" {
				return line, fault
			}
			line += lines
		default:
			value = strings.TrimSuffix(value, "\r")
		}
		out[name], text = value, rest
	}
	return 0, ""
}

// between returns what is between the quotes with which a text begins, the lines
// after that, and how many line ends are between the quotes.
func between(text string) (value, rest string, lines int, fault string) {
	value, rest, closed := strings.Cut(text[1:], text[:1])
	if !closed {
		return "", "", 0, "the quote at the beginning of the value is not closed"
	}
	tail, rest, _ := strings.Cut(rest, "\n")
	if end := strings.TrimLeft(tail, " \t\r"); end != "" && (end == tail || end[0] != '#') {
		return "", "", 0, "the value goes on after its closing quote; use the other quotes, or none"
	}
	return strings.ReplaceAll(value, "\r\n", "\n"), rest, strings.Count(value, "\n"), ""
}
