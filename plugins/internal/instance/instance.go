// Package instance holds the common parts of the instances of these plugins:
// their ids, and the expansion of configured texts.
package instance

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
)

// Vars are the values of one instance, which texts refer to as {{.ID}}.
type Vars struct {
	ID    string
	Group string
	Dir   string // empty if the instance has no directory on this host
}

// The environment variables of every instance.
const (
	IDVariable    = "FLEETING_INSTANCE_ID"
	GroupVariable = "FLEETING_INSTANCE_GROUP"
	DirVariable   = "FLEETING_INSTANCE_DIR"
)

var groupPattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,47}$`)

// CheckGroup rejects group names that cannot be parts of other names.
func CheckGroup(name string) error {
	if name == "" {
		return errors.New("name: required")
	}
	if !groupPattern.MatchString(name) {
		return fmt.Errorf("name: %q must match %s", name, groupPattern)
	}
	return nil
}

// NewID returns a new unique id.
func NewID(group string) string {
	return group + "-" + strings.ToLower(rand.Text()[:10])
}

// Fill replaces {{.ID}}, {{.Group}} and {{.Dir}} in a text.
func (v Vars) Fill(text string) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	t, err := template.New("").Parse(text)
	if err != nil {
		return "", fmt.Errorf("read %q: %w", text, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, v); err != nil {
		return "", fmt.Errorf("fill in %q: %w", text, err)
	}
	return b.String(), nil
}

// FillAll expands every text of a list.
func (v Vars) FillAll(texts []string) ([]string, error) {
	filled := make([]string, len(texts))
	for i, text := range texts {
		var err error
		if filled[i], err = v.Fill(text); err != nil {
			return nil, err
		}
	}
	return filled, nil
}

// Environment returns base with the instance's variables and the configured
// ones.
func (v Vars) Environment(base []string, configured map[string]string) ([]string, error) {
	env := append(slices.Clone(base), IDVariable+"="+v.ID, GroupVariable+"="+v.Group)
	if v.Dir != "" {
		env = append(env, DirVariable+"="+v.Dir)
	}
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		value, err := v.Fill(configured[name])
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", name, err)
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// Duration is encoded as text such as 30s, or as a number of seconds. Another value is a
// json.UnmarshalTypeError, which has its key.
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var seconds float64
	if err := json.Unmarshal(text, &seconds); err == nil {
		*d = Duration(seconds * float64(time.Second))
		return nil
	}
	var words string
	if err := json.Unmarshal(text, &words); err != nil {
		return refused(err)
	}
	parsed, err := time.ParseDuration(words)
	if err != nil {
		return &json.UnmarshalTypeError{Value: "string", Type: reflect.TypeFor[Duration]()}
	}
	*d = Duration(parsed)
	return nil
}

// refused returns the error to which encoding/json adds the key of the duration.
func refused(err error) error {
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &json.UnmarshalTypeError{Value: mismatch.Value, Type: reflect.TypeFor[Duration]()}
	}
	return err
}

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// Or returns the duration, or a default if it is not set.
func (d Duration) Or(fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return time.Duration(d)
}
