package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Value returns a setting as a string, "" for a key that does not exist. The
// environment or a flag can set the setting with this string: the items of a list
// are separated by commas, those of a map are key=value. Secrets are not hidden.
func (c Config) Value(key string) string {
	value := reflect.ValueOf(c)
	for part := range strings.SplitSeq(key, levels) {
		if value.Kind() != reflect.Struct {
			return ""
		}
		field, ok := fieldOf(value.Type(), part)
		if !ok {
			return ""
		}
		value = value.FieldByIndex(field.Index)
	}
	switch v := value.Interface().(type) {
	case Secret:
		return v.Reveal()
	case []string:
		return strings.Join(v, ",")
	case map[string]string:
		pairs := make([]string, 0, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			pairs = append(pairs, k+"="+v[k])
		}
		return strings.Join(pairs, ",")
	}
	if value.Kind() == reflect.Struct {
		return ""
	}
	return fmt.Sprint(value.Interface())
}

// fieldOf returns the field of a section for a part of a key.
func fieldOf(t reflect.Type, part string) (reflect.StructField, bool) {
	for field := range t.Fields() {
		if field.Tag.Get("koanf") == part {
			return field, true
		}
	}
	return reflect.StructField{}, false
}
