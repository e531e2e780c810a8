package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/yamlfault"
)

// Environment variables. The variable of a setting is its key in upper case after
// the prefix, with "__" between the levels: DROVER_GATEWAY__LISTEN. Names without
// "__" are not settings.
const (
	variablePrefix = "DROVER_"
	variableLevels = "__"
)

// Source lists the sources of the configuration, besides the defaults. A later
// field overrides an earlier one.
type Source struct {
	File    string            // path of a YAML file; "": none
	Environ []string          // in the form of os.Environ; nil: none
	Flags   map[string]string // values of flags by key, lists separated by commas
}

// Load reads the configuration. It is strict: an unknown setting, or a value of
// the wrong form, is an error. Load returns all errors at once, each with its
// source, and together with those of Config.Validate. Without errors it does not
// validate the values.
func Load(src Source) (Config, error) {
	l := loader{known: settings(), koanf: koanf.New(levels)}
	if src.File != "" {
		l.file(src.File)
	}
	l.environ(src.Environ)
	l.flags(src.Flags)
	c := Default()
	if err := l.koanf.Unmarshal("", &c); err != nil {
		l.errs = append(l.errs, fmt.Errorf("read the configuration: %w", err))
	} else if len(l.errs) > 0 { // what could be read may have other errors
		l.errs = append(l.errs, c.Validate())
	}
	if err := errors.Join(l.errs...); err != nil {
		return Config{}, err
	}
	return c, nil
}

type loader struct {
	known map[string]reflect.Type
	koanf *koanf.Koanf
	errs  []error
}

func (l *loader) fail(location, format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf("%s: %w", location, fmt.Errorf(format, args...)))
}

// merge merges values into the configuration. The values were converted, and
// their keys exist.
func (l *loader) merge(provider koanf.Provider) {
	if err := l.koanf.Load(provider, nil); err != nil {
		l.errs = append(l.errs, fmt.Errorf("merge the configuration: %w", err))
	}
}

func (l *loader) file(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read the configuration: %w", err))
		return
	}
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return // an empty file sets nothing
	} else if err != nil {
		line, detail := yamlfault.Explain(data, err)
		l.fail(fmt.Sprintf("%s:%d", path, line), "%s", detail)
		return
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		l.fail(path, "the file has a second document")
		return
	}
	values := make(map[string]any)
	l.section(path, "", doc.Content[0], values)
	l.merge(confmap.Provider(values, levels))
}

// section collects the settings of one map of a file.
func (l *loader) section(path, prefix string, n *yaml.Node, values map[string]any) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // a section without content sets nothing
	}
	if n.Kind != yaml.MappingNode {
		l.fail(fmt.Sprintf("%s:%d", path, n.Line), "%sexpected a map of settings", label(strings.TrimSuffix(prefix, levels)))
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key, location := prefix+name.Value, fmt.Sprintf("%s:%d", path, name.Line)
		t, isSetting := l.known[key]
		switch {
		case seen[key]:
			l.fail(location, "%s is set twice", key)
		case isSection(l.known, key):
			l.section(path, key+levels, value, values)
		case !isSetting:
			l.unknown(location, key)
		case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
			// A key without a value sets nothing.
		default:
			v, err := fromNode(value, t)
			if err != nil {
				l.fail(location, "%s: %w", key, err)
				break
			}
			values[key] = v
		}
		seen[key] = true
	}
}

func label(key string) string {
	if key == "" {
		return ""
	}
	return key + ": "
}

func (l *loader) environ(environ []string) {
	environ = slices.Clone(environ)
	slices.Sort(environ) // report faults in a stable order
	l.merge(env.Provider(levels, env.Opt{
		Prefix:      variablePrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(variable, text string) (string, any) {
			name := strings.TrimPrefix(variable, variablePrefix)
			if !strings.Contains(name, variableLevels) {
				return "", nil
			}
			key := strings.ToLower(strings.ReplaceAll(name, variableLevels, levels))
			return l.text(variable, key, text)
		},
	}))
}

func (l *loader) flags(flags map[string]string) {
	values := make(map[string]any)
	for _, key := range slices.Sorted(keysOf(flags)) {
		if key, v := l.text("flags", key, flags[key]); key != "" {
			values[key] = v
		}
	}
	l.merge(confmap.Provider(values, levels))
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// text parses a setting, and returns "" if the value is invalid.
func (l *loader) text(location, key, text string) (string, any) {
	t, ok := l.known[key]
	if !ok {
		l.unknown(location, key)
		return "", nil
	}
	v, err := fromText(text, t)
	if err != nil {
		l.fail(location, "%s: %w", key, err)
		return "", nil
	}
	return key, v
}

// names returns the keys of all settings and sections.
func (l *loader) names() []string {
	names := Keys()
	for _, key := range names {
		for i := strings.LastIndex(key, levels); i >= 0; i = strings.LastIndex(key[:i], levels) {
			if !slices.Contains(names, key[:i]) {
				names = append(names, key[:i])
			}
		}
	}
	return names
}

func (l *loader) unknown(location, key string) {
	l.fail(location, "unknown setting %s%s", key, suggestion(key, l.names()))
}
