// Package jsonfault explains why a text is not JSON, or does not fit a type, in words
// for people who do not know how a parser works.
package jsonfault

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/suggest"
)

var characterPattern = regexp.MustCompile(`(?s)^invalid character '(.*?)'(?: (.*))?$`)

// Explain says why encoding/json refused a text that is not JSON. It never returns a
// part of the text.
func Explain(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	message, character := err.Error(), ""
	if m := characterPattern.FindStringSubmatch(message); m != nil {
		character, message = m[1], m[2]
	}
	has := func(part string) bool { return strings.Contains(message, part) }
	key := has("looking for beginning of object key") || message == "" // of the first key, a Decoder says no more
	switch {
	case has("unexpected end"):
		return "it ends too early"
	case (key || has("looking for beginning of value")) && (character == "/" || character == "#"):
		return "JSON has no comments"
	case key && character == "}":
		return "the last item of a map is followed by a comma"
	case key:
		return "a key in double quotes is expected"
	case has("looking for beginning of value") && slices.Contains([]string{"]", "}", ","}, character):
		return "a value is missing, or there is a comma too many"
	case has("looking for beginning of value"):
		return "a value is expected; a text is in double quotes"
	case has("after object key:value pair"):
		return "a comma or } is expected after a value"
	case has("after array element"):
		return "a comma or ] is expected after an item of a list"
	case has("after object key"):
		return "a colon is expected after a key"
	case has("in literal"):
		return "a value is expected; true, false and null are in lower case, and a text is in double quotes"
	case has("in string literal"):
		return `a text has a line break or another control character: write \n for a line break`
	case has("escape"):
		return `in a text \ begins an escape such as \n: write \\`
	case has("numeric literal"):
		return "a number such as 12, -0.5 or 1e3 is expected"
	case has("top-level value"):
		return "there is more after its end"
	case has("max depth"):
		return "it is nested too deeply"
	}
	return err.Error()
}

// Mismatch says why a value does not fit: "a number where a string is expected".
func Mismatch(err *json.UnmarshalTypeError) string {
	return given(err.Value) + " where " + expected(err.Type) + " is expected"
}

// given names a value of JSON as json.UnmarshalTypeError does.
func given(value string) string {
	kind, digits, number := strings.Cut(value, " ")
	switch {
	case kind == "array":
		return "a list"
	case kind == "object":
		return "a map"
	case kind == "bool":
		return "true or false"
	case number:
		return "the number " + digits
	}
	return "a " + kind
}

var mismatchPattern = regexp.MustCompile(`json: cannot unmarshal (\w+(?: [-+.\w]+)?) into Go (?:struct field \w*\.(\S+)|value) of type (\S+)`)

// MismatchIn finds the message of a json.UnmarshalTypeError in the message of another
// program. It returns the path of the value, "" if it is all of the text, and what
// Mismatch would say.
func MismatchIn(message string) (path, detail string, found bool) {
	m := mismatchPattern.FindStringSubmatch(message)
	if m == nil {
		return "", "", false
	}
	return m[2], given(m[1]) + " where " + expectedOf(strings.TrimLeft(m[3], "*")) + " is expected", true
}

// expectedOf names what a type of Go accepts, of which only the name is known.
func expectedOf(name string) string {
	switch kind := strings.TrimRight(name, "0123456789"); {
	case name == "time.Duration":
		return "a whole number of nanoseconds"
	case strings.HasSuffix(name, ".Duration"):
		return "a duration such as 90s"
	case kind == "string":
		return "a string"
	case kind == "bool":
		return "true or false"
	case kind == "int":
		return "a whole number"
	case kind == "uint":
		return "a whole number of at least 0"
	case kind == "float":
		return "a number"
	case strings.HasPrefix(name, "["):
		return "a list"
	case strings.HasPrefix(name, "map["):
		return "a map"
	}
	return "a value of the type " + name
}

// expected names what a type of Go accepts.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of at least 0"
	default:
		return "a map"
	}
}

// IsTime reports whether a time was refused, of which the error has the value and no
// path.
func IsTime(err error) bool {
	_, ok := errors.AsType[*time.ParseError](err)
	return ok || strings.HasPrefix(err.Error(), "Time.UnmarshalJSON: ")
}

// Unknown is a key that a type does not have.
type Unknown struct{ Path, Detail string }

// UnknownKeys returns the keys in a text that the type of v does not have, ordered by
// their paths, at most limit.
func UnknownKeys(text []byte, v any, limit int) []Unknown {
	var value any
	if json.Unmarshal(text, &value) != nil {
		return nil
	}
	var out []Unknown
	find(reflect.TypeOf(v), value, "", func(u Unknown) bool {
		out = append(out, u)
		return len(out) < limit
	})
	return out
}

// find yields the unknown keys in a value, until yield returns false.
func find(t reflect.Type, value any, path string, yield func(Unknown) bool) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	own := reflect.PointerTo(t)
	if own.Implements(reflect.TypeFor[json.Unmarshaler]()) || own.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return true
	}
	if list, ok := value.([]any); ok && t.Kind() == reflect.Slice {
		for i, item := range list {
			if !find(t.Elem(), item, path+"["+strconv.Itoa(i)+"]", yield) {
				return false
			}
		}
		return true
	}
	object, ok := value.(map[string]any)
	if !ok || t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return true
	}
	fields := fieldsOf(t)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		of, known := t, t.Kind() == reflect.Map
		if known {
			of = t.Elem()
		}
		for name, field := range fields {
			if strings.EqualFold(name, key) { // as encoding/json does
				of, known = field, true
			}
		}
		if known && !find(of, object[key], at, yield) || !known && !yield(unknown(at, key, fields)) {
			return false
		}
	}
	return true
}

func unknown(path, key string, fields map[string]reflect.Type) Unknown {
	u := Unknown{Path: path, Detail: "there is no field " + strconv.Quote(key) + " here"}
	known := slices.Sorted(maps.Keys(fields))
	if s := suggest.Nearest(key, known); s != "" {
		u.Detail += fmt.Sprintf("; did you mean %q?", s)
	} else if len(known) > 0 {
		u.Detail += ", only " + strings.Join(known, ", ")
	}
	return u
}

// fieldsOf returns the types of the fields of a struct by their keys.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if t.Kind() != reflect.Struct {
		return nil
	}
	out := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous && f.IsExported() && name != "-" && (len(f.Index) == 1 || out[name] == nil) {
			out[name] = f.Type
		}
	}
	return out
}
