package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// levels separates the parts of a setting's key, as in "gateway.listen".
const levels = "."

// settings returns the type of every setting by its key.
func settings() map[string]reflect.Type {
	all := make(map[string]reflect.Type)
	addSettings(all, "", reflect.TypeFor[Config]())
	return all
}

func addSettings(all map[string]reflect.Type, prefix string, t reflect.Type) {
	for field := range t.Fields() {
		key := prefix + field.Tag.Get("koanf")
		if field.Type.Kind() == reflect.Struct {
			addSettings(all, key+levels, field.Type)
			continue
		}
		all[key] = field.Type
	}
}

// isSection reports whether key is a proper prefix of the keys of settings.
func isSection(all map[string]reflect.Type, key string) bool {
	for k := range all {
		if strings.HasPrefix(k, key+levels) {
			return true
		}
	}
	return false
}

// Keys returns the keys of all settings, in order.
func Keys() []string { return slices.Sorted(maps.Keys(settings())) }

// fromNode reads the value of a setting from a configuration file.
func fromNode(n *yaml.Node, t reflect.Type) (any, error) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch t.Kind() { //nolint:exhaustive // all others are scalars
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			break // one string, separated by commas as in the environment
		}
		list := make([]string, 0, len(n.Content))
		for _, item := range n.Content {
			text, err := scalar(item)
			if err != nil {
				return nil, err
			}
			list = append(list, text)
		}
		return list, nil
	case reflect.Map:
		if n.Kind != yaml.MappingNode {
			break
		}
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			text, err := scalar(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			m[n.Content[i].Value] = text
		}
		return m, nil
	}
	text, err := scalar(n)
	if err != nil {
		return nil, err
	}
	return fromText(text, t)
}

func scalar(n *yaml.Node) (string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		return "", fmt.Errorf("expected a single value, not a %s", kindName(n.Kind))
	}
	if n.Tag == "!!null" {
		return "", nil
	}
	return n.Value, nil
}

func kindName(k yaml.Kind) string {
	if k == yaml.SequenceNode {
		return "list"
	}
	return "map"
}

// fromText parses the value of a setting. Errors never contain a secret.
func fromText(text string, t reflect.Type) (any, error) {
	if t == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a duration such as 10s or 1h30m", text)
		}
		return d, nil
	}
	switch t.Kind() { //nolint:exhaustive // a test checks that the settings have no other kinds
	case reflect.String:
		return text, nil
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return n, nil
	case reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return n, nil
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return b, nil
	case reflect.Slice:
		return splitList(text), nil
	case reflect.Map:
		m := make(map[string]any)
		for _, pair := range splitList(text) {
			k, v, ok := strings.Cut(pair, "=")
			if !ok || k == "" {
				return nil, fmt.Errorf("%q is not of the form key=value", pair)
			}
			m[k] = v
		}
		return m, nil
	}
	return nil, fmt.Errorf("a setting of type %s cannot be read", t)
}

func splitList(text string) []string {
	list := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}
