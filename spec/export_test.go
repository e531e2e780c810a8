package spec

import (
	"reflect"
	"strings"

	"github.com/drover-run/drover/run"
)

// ForeignWords returns the hints for the words of other systems, by the type
// whose keys they replace.
func ForeignWords() map[reflect.Type]map[string]string {
	out := make(map[reflect.Type]map[string]string)
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() { //nolint:exhaustive // the other kinds have no keys
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(t.Elem())
		case reflect.Struct:
			if words := foreignWords(t); words != nil {
				out[t] = words
			}
			for f := range t.Fields() {
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[run.Spec]())
	return out
}

// FieldsOf returns the keys of a type, without underscores.
func FieldsOf(t reflect.Type) []string {
	var out []string
	for _, f := range newDecoder(nil).fieldsOf(t) {
		out = append(out, strings.ReplaceAll(f.name, "_", ""))
	}
	return out
}
