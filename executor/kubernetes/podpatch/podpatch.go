// Package podpatch applies strategic merge patches to pods, as the package
// strategicpatch of k8s.io/apimachinery does. That package also links the models of
// OpenAPI, which it does not need for Go types, 2 MB.
package podpatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	forkedjson "k8s.io/apimachinery/third_party/forked/golang/json"
)

// The directives of a patch. Another one, $setElementOrder, is for patches that a
// program computes, and is refused.
const (
	directivePatch        = "$patch"
	directiveRetainKeys   = "$retainKeys"
	directiveDeleteFrom   = "$deleteFromPrimitiveList/"
	directiveElementOrder = "$setElementOrder/"
)

type (
	object = map[string]any
	list   = []any
)

// Apply returns a pod in JSON with a patch applied.
func Apply(pod, patch []byte) ([]byte, error) {
	var original, changes object
	if err := json.Unmarshal(pod, &original); err != nil {
		return nil, fmt.Errorf("read the pod: %w", err)
	}
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	merged, err := mergeObject(original, changes, reflect.TypeFor[corev1.Pod]())
	if err != nil {
		return nil, err
	}
	return json.Marshal(merged)
}

// mergeObject merges a patch into an object of type t, which it changes.
func mergeObject(original, patch object, t reflect.Type) (object, error) {
	if directive, ok := patch[directivePatch]; ok {
		switch directive {
		case "replace":
			delete(patch, directivePatch)
			return patch, nil
		case "delete":
			return object{}, nil
		}
		return nil, fmt.Errorf("unknown directive $patch: %v", directive)
	}
	if err := retainKeys(original, patch); err != nil {
		return nil, err
	}
	for key, value := range patch {
		if strings.HasPrefix(key, directiveElementOrder) {
			return nil, fmt.Errorf("the directive %s is not supported", key)
		}
		if name, ok := strings.CutPrefix(key, directiveDeleteFrom); ok {
			if err := deleteFrom(original, name, value); err != nil {
				return nil, err
			}
			delete(patch, key)
		}
	}
	for key, value := range patch {
		if err := mergeField(original, key, value, t); err != nil {
			return nil, err
		}
	}
	return original, nil
}

// mergeField merges the value of one field into an object of type t.
func mergeField(original object, key string, value any, t reflect.Type) error {
	if value == nil {
		delete(original, key)
		return nil
	}
	var err error
	switch old := original[key].(type) {
	case object:
		if patch, ok := value.(object); ok {
			original[key], err = mergeObjectField(old, patch, key, t)
			return err
		}
	case list:
		if patch, ok := value.(list); ok {
			original[key], err = mergeListField(old, patch, key, t)
			return err
		}
	}
	dropNulls(value)
	if kept, ok := withoutDirectives(value); ok {
		original[key] = kept
	} else {
		delete(original, key)
	}
	return nil
}

func mergeObjectField(original, patch object, key string, t reflect.Type) (object, error) {
	field, strategies, _, err := forkedjson.LookupPatchMetadataForStruct(t, key)
	if err != nil {
		return nil, err
	}
	if slices.Contains(strategies, "replace") {
		return patch, nil
	}
	return mergeObject(original, patch, field)
}

func mergeListField(original, patch list, key string, t reflect.Type) (list, error) {
	field, strategies, mergeKey, err := forkedjson.LookupPatchMetadataForStruct(t, key)
	if err != nil {
		return nil, err
	}
	for field.Kind() == reflect.Pointer || field.Kind() == reflect.Slice {
		field = field.Elem()
	}
	if !slices.Contains(strategies, "merge") {
		return patch, nil
	}
	objects := 0
	for _, element := range slices.Concat(original, patch) {
		switch element.(type) {
		case object:
			objects++
		case list, nil:
			return nil, fmt.Errorf("%s: an element is a list or null", key)
		}
	}
	switch objects {
	case 0:
		both := unique(slices.Concat(original, patch))
		return ordered(both, original, patch, func(element any) any { return element }), nil
	case len(original) + len(patch):
		return mergeObjects(original, patch, mergeKey, field)
	}
	return nil, fmt.Errorf("%s: the elements are of different types", key)
}

// mergeObjects merges lists of objects of type t, which are identified by a field.
func mergeObjects(original, patch list, mergeKey string, t reflect.Type) (list, error) {
	if mergeKey == "" {
		return nil, errors.New("a list without a merge key can not be merged")
	}
	id := func(element any) any { return element.(object)[mergeKey] } // the caller checked the type
	changes := list{}
	replace := false
	for _, element := range patch {
		directive, special := element.(object)[directivePatch] // the caller checked the type
		if id(element) == nil && directive != "replace" {
			return nil, fmt.Errorf("an element of the patch lacks the field %s", mergeKey)
		}
		switch {
		case !special:
			changes = append(changes, element)
		case directive == "delete":
			original = slices.DeleteFunc(original, func(old any) bool { return reflect.DeepEqual(id(old), id(element)) })
		case directive == "replace":
			replace = true
		default:
			return nil, fmt.Errorf("unknown directive $patch: %v", directive)
		}
	}
	if replace {
		original, changes = changes, nil
	}
	merged := slices.Clone(original)
	for _, element := range changes {
		i := slices.IndexFunc(merged, func(old any) bool { return reflect.DeepEqual(id(old), id(element)) })
		if i < 0 {
			merged = append(merged, element)
			continue
		}
		object, err := mergeObject(merged[i].(object), element.(object), t) // the caller checked the type
		if err != nil {
			return nil, err
		}
		merged[i] = object
	}
	return ordered(merged, original, changes, id), nil
}

// ordered sorts a merged list: the elements of the patch have the patch's order,
// and the others stay before those that they were before.
func ordered(merged, original, patch list, id func(any) any) list {
	in := func(l list, element any) int {
		return slices.IndexFunc(l, func(other any) bool { return reflect.DeepEqual(id(other), id(element)) })
	}
	var patched, kept list
	out := list{} // an empty list is not null
	for _, element := range merged {
		if in(patch, element) >= 0 {
			patched = append(patched, element)
		} else {
			kept = append(kept, element)
		}
	}
	slices.SortStableFunc(patched, func(a, b any) int { return in(patch, a) - in(patch, b) })
	slices.SortStableFunc(kept, func(a, b any) int { return in(original, a) - in(original, b) })
	for len(kept) > 0 && len(patched) > 0 {
		k, p := in(original, kept[0]), in(original, patched[0])
		if k >= 0 && p >= 0 && k < p {
			out, kept = append(out, kept[0]), kept[1:]
		} else {
			out, patched = append(out, patched[0]), patched[1:]
		}
	}
	return append(append(out, kept...), patched...)
}

// retainKeys applies the directive that lists the only fields that remain.
func retainKeys(original, patch object) error {
	value, ok := patch[directiveRetainKeys]
	if !ok {
		return nil
	}
	delete(patch, directiveRetainKeys)
	keys, ok := value.(list)
	if !ok {
		return errors.New("$retainKeys is not a list")
	}
	retained := func(key string) bool { return slices.Contains(keys, any(key)) }
	for key, value := range patch {
		if value != nil && !strings.HasPrefix(key, directiveDeleteFrom) && !retained(key) {
			return fmt.Errorf("$retainKeys lacks the field %s of the patch", key)
		}
	}
	for key := range original {
		if !retained(key) {
			delete(original, key)
		}
	}
	return nil
}

// deleteFrom removes values from a list of scalars.
func deleteFrom(original object, key string, value any) error {
	values, ok := value.(list)
	if !ok {
		return fmt.Errorf("%s%s is not a list", directiveDeleteFrom, key)
	}
	if old, ok := original[key].(list); ok {
		original[key] = slices.DeleteFunc(old, func(element any) bool {
			return slices.ContainsFunc(values, func(v any) bool { return reflect.DeepEqual(v, element) })
		})
	}
	return nil
}

// unique removes all but the first of equal scalars.
func unique(l list) list {
	var out list
	for _, element := range l {
		if !slices.Contains(out, element) {
			out = append(out, element)
		}
	}
	return out
}

// dropNulls removes fields that are null from a new value.
func dropNulls(value any) {
	switch value := value.(type) {
	case object:
		for key, field := range value {
			if field == nil {
				delete(value, key)
			} else {
				dropNulls(field)
			}
		}
	case list:
		for _, element := range value {
			dropNulls(element)
		}
	}
}

// withoutDirectives returns a new value without the parts that are directives, and
// whether anything is left.
func withoutDirectives(value any) (any, bool) {
	switch value := value.(type) {
	case object:
		if _, ok := value[directivePatch]; ok {
			return nil, false
		}
		for key, field := range value {
			if kept, ok := withoutDirectives(field); ok {
				value[key] = kept
			} else {
				delete(value, key)
			}
		}
	case list:
		out := list{}
		for _, element := range value {
			if kept, ok := withoutDirectives(element); ok {
				out = append(out, kept)
			}
		}
		return out, true
	}
	return value, true
}
